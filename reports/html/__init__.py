"""A report as one HTML file that needs nothing else: no server, no network, no other file.

`page` assembles the document, `run_page` and `comparison_page` say what is in it, `charts/` makes Vega-Lite of series,
`tables` makes tables of grids, `assets/` has the style and the scripts that sort, filter, draw and download. Text of
records becomes text nodes and attributes by `markup` alone, so that no name can become a tag, and a Content Security
Policy names the scripts by their hashes, so that nothing else could run. Importing this package imports altair.
"""
