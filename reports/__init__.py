"""What a stored run says, in tables: content first, then units, then renderers. Knows no torch.

from reports import content, terminal
terminal.render(content.from_run(run), terminal.new_console())
"""
