"""Discovery: everything in the stages' folders, installed modules, and plugins with every way to be wrong."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import variants.qkv
from variants import registry as module
from variants.registry import PluginError, discover
from variants.stage import STAGES
from variants.variant import Variant

GOOD = """\
from variants.variant import Variant

class Mine(Variant):
    stage = "output"
    name = "mine"

    def call(self, heads):
        return heads
"""


@pytest.fixture
def plugin(tmp_path):
    """Writes a plugin file and returns its path."""

    def write(text: str, name: str = "mine.py") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def fault_of(path: Path) -> str:
    with pytest.raises(PluginError) as error:
        discover([path])
    message = str(error.value)
    assert str(path) in message
    assert "\n" not in message
    return message


def test_every_variant_file_is_found_and_none_is_broken():
    found = discover()
    assert found.broken == []
    files = {path for stage in STAGES for path in (Path(module.__file__).parent / stage).glob("[!_]*.py")}
    assert set(found.files.values()) == files
    assert {(path.parent.name, path.stem) for path in files} == set(found.variants)


@pytest.mark.parametrize(
    ("stage", "names"),
    [
        ("qkv", {"per_head", "fused", "fused_qkv"}),
        ("attention", {"per_head_loop", "materialized", "sdpa"}),
        ("attention", {"sdpa_flash", "sdpa_cudnn", "sdpa_efficient", "sdpa_math"}),
        ("output", {"concat_matmul", "per_head_accumulate"}),
        ("sublayer", {"per_head", "fused_sdpa", "nn_multihead_attention"}),
    ],
)
def test_the_first_variants_are_there(stage, names):
    assert names <= set(discover().of_stage(stage))


def test_the_order_is_the_stages_and_then_the_names(plugin):
    keys = list(discover([plugin(GOOD.replace('"mine"', '"a_first"'))]).variants)
    assert keys == sorted(keys, key=lambda key: (list(STAGES).index(key[0]), key[1]))
    assert keys == list(discover([plugin(GOOD.replace('"mine"', '"a_first"'))]).files)


def test_a_plugin_adds_its_variants_beside_the_built_in_ones(plugin):
    path = plugin(GOOD)
    found = discover([path])
    assert issubclass(found.variants["output", "mine"], Variant)
    assert found.files["output", "mine"] == path
    assert set(discover().variants) == set(found.variants) - {("output", "mine")}


def test_a_plugin_given_twice_is_one_plugin(plugin):
    path = plugin(GOOD)
    assert ("output", "mine") in discover([path, path.parent / "." / path.name]).variants


def test_a_plugin_may_define_several_variants_and_a_dataclass(plugin):
    text = "from dataclasses import dataclass\n" + GOOD + "\nclass Yours(Mine):\n    name = 'yours'\n"
    text += "\n@dataclass\nclass Tile:\n    rows: 'int' = 16\n"
    assert set(discover([plugin(text)]).of_stage("output")) >= {"mine", "yours"}


def test_variants_that_a_plugin_only_imports_are_not_its_own(plugin):
    found = discover([plugin("from variants.qkv.fused import Fused\n" + GOOD)])
    assert found.files["qkv", "fused"].parent.name == "qkv"


def test_two_plugins_of_one_file_name_do_not_collide(plugin, tmp_path):
    (tmp_path / "other").mkdir()
    second = plugin(GOOD.replace('"mine"', '"second"'), "other/mine.py")
    assert set(discover([plugin(GOOD), second]).of_stage("output")) >= {"mine", "second"}


def test_a_plugins_name_need_not_be_an_identifier(plugin):
    assert ("output", "mine") in discover([plugin(GOOD, "my-first variant.py")]).variants


def test_a_missing_plugin_says_so(tmp_path):
    assert "does not exist: --plugin takes the path of a Python file" in fault_of(tmp_path / "none.py")


def test_a_plugin_that_is_no_python_file_says_so(plugin, tmp_path):
    assert "is not a Python file" in fault_of(plugin(GOOD, "mine.txt"))
    (tmp_path / "folder.py").mkdir()
    assert "is not a Python file" in fault_of(tmp_path / "folder.py")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            "x = 1\n\nraise RuntimeError('two\\nlines')\n",
            "fails to import at line 3: RuntimeError: two lines",
        ),
        (
            "def f():\n    return 1 / 0\n\nf()\n",
            "fails to import at line 2: ZeroDivisionError: division by zero",
        ),
        ("x = 1\ndef (:\n", "fails to import at line 2: SyntaxError: "),
        ("import no_such_module\n", "fails to import at line 1: ModuleNotFoundError: No module named"),
        ("import sys\nsys.exit(3)\n", "fails to import at line 2: SystemExit: 3"),
        ("raise KeyError\n", "fails to import at line 1: KeyError"),
    ],
)
def test_a_plugin_that_raises_names_the_type_the_message_and_the_line(plugin, text, fault):
    path = plugin(text)
    assert fault in fault_of(path)
    assert not [name for name, loaded in sys.modules.items() if getattr(loaded, "__file__", "") == str(path)]


def test_an_interrupt_during_import_is_no_fault_of_the_plugin(plugin):
    with pytest.raises(KeyboardInterrupt):
        discover([plugin("raise KeyboardInterrupt\n")])


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("x = 1\n", "defines no variant: it must define a subclass of variants.variant.Variant with `stage`"),
        (GOOD.replace('    name = "mine"\n', ""), "defines no variant (Mine has no `name`): it must define"),
        (
            GOOD.replace("output", "atention"),
            "Mine has the stage 'atention', which does not exist: attention would",
        ),
        (
            GOOD.replace("output", "mlp"),
            "does not exist: qkv or split or attention or output or sublayer or stack would do",
        ),
        (GOOD.replace('    stage = "output"\n', ""), "Mine has the stage None, which does not exist"),
        (GOOD.replace('"output"', "['output']"), "Mine has the stage ['output'], which does not exist"),
        (GOOD.replace("def call", "def run"), "Mine has no `call`: it must define"),
        (GOOD.replace('"mine"', '"my variant"'), "Mine has the name 'my variant': a name is letters, digits"),
        (GOOD.replace('"mine"', '""'), "Mine has the name '': a name is"),
        (GOOD.replace('"mine"', '"--mine"'), "Mine has the name '--mine': a name is"),
        (GOOD.replace('"mine"', '"mine\\n"'), "has the name 'mine\\n': a name is"),
        (GOOD.replace('"mine"', "7"), "Mine has the name 7: a name is"),
        (
            GOOD.replace('"mine"', '"mine"\n    requires = "cuda"'),
            "has requires 'cuda': it must be a variants.",
        ),
        (
            GOOD.replace('"mine"', '"mine"\n    no_backward = True'),
            "Mine has no_backward True: it is the reason in words, or None",
        ),
        (GOOD.replace('"mine"', '"mine"\n    no_backward = ""'), "Mine has no_backward '': it is the reason"),
    ],
)
def test_a_plugin_without_a_usable_variant_says_what_it_must_define(plugin, text, fault):
    assert fault in fault_of(plugin(text))


def test_a_name_that_a_built_in_variant_has_names_both_files(plugin):
    fault = fault_of(plugin(GOOD.replace('"mine"', '"concat_matmul"')))
    assert "Mine takes the name output/concat_matmul" in fault
    assert str(Path("variants", "output", "concat_matmul.py")) in fault


def test_a_name_that_another_plugin_has_names_both_files(plugin):
    first, second = plugin(GOOD), plugin(GOOD, "second.py")
    with pytest.raises(PluginError, match="takes the name output/mine") as error:
        discover([first, second])
    assert str(first) in str(error.value)
    assert str(second) in str(error.value)


def test_a_name_taken_twice_in_one_file_is_refused(plugin):
    assert "Twin takes the name output/mine" in fault_of(
        plugin(GOOD + '\nclass Twin(Mine):\n    name = "mine"\n')
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import no_such_module\n", "fails to import: ModuleNotFoundError: No module named 'no_such_module'"),
        ("import sys\nsys.exit('no')\n", "fails to import: SystemExit: no"),
        ("x = 1\n", "defines no variant"),
    ],
)
def test_a_broken_built_in_file_is_reported_and_stops_nothing(plugin, tmp_path, monkeypatch, text, reason):
    path = plugin(text, "broken_layout.py")
    whole = discover()
    monkeypatch.setattr(variants.qkv, "__path__", [*variants.qkv.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "variants.qkv.broken_layout", raising=False)
    found = discover()
    assert list(found.variants) == list(whole.variants)
    (broken,) = found.broken
    assert (broken.file, broken.stage, broken.name) == (path, "qkv", "broken_layout")
    assert reason in broken.reason
    assert "\n" not in broken.reason
    sys.modules.pop("variants.qkv.broken_layout", None)


@pytest.mark.parametrize("arrives", ["transposed", 1])
def test_a_layout_that_nobody_arranges_is_refused_by_name(plugin, arrives):
    with pytest.raises(PluginError, match=f"has arrives {arrives!r}: contiguous or strided would do"):
        discover([plugin(GOOD + f"    arrives = {arrives!r}\n")])


def test_a_stage_without_heads_to_stride_over_says_which_have_them(plugin):
    text = GOOD.replace('"output"', '"qkv"') + '    arrives = "strided"\n'
    with pytest.raises(PluginError, match="strided in attention and output alone"):
        discover([plugin(text)])


def install(monkeypatch, *points: tuple[str, str]) -> None:
    found = [EntryPoint(name, value, module.ENTRY_POINT_GROUP) for name, value in points]
    monkeypatch.setattr(
        module, "entry_points", lambda group: found if group == module.ENTRY_POINT_GROUP else []
    )


def test_an_installed_module_adds_its_variants(plugin, tmp_path, monkeypatch):
    path = plugin(GOOD, "installed_layouts.py")
    monkeypatch.syspath_prepend(tmp_path)
    install(monkeypatch, ("mine", "installed_layouts"))
    assert discover().files["output", "mine"] == path
    sys.modules.pop("installed_layouts")


def test_a_broken_installed_module_is_reported_with_an_unknown_stage(monkeypatch):
    install(monkeypatch, ("theirs", "no_such_layouts"))
    found = discover()
    (broken,) = found.broken
    assert (broken.stage, broken.name) == (None, "theirs")
    assert "no_such_layouts fails to import: ModuleNotFoundError" in broken.reason
    assert found.of_stage("qkv")
