"""Settings: a wrong one is named on one line, defaults follow the orientation, files are read strictly."""

from pathlib import Path
from typing import Any

import pytest

from cofill import CFN, CFNSettings
from cofill.config import PRESETS, read_settings_file
from cofill.errors import SettingsError

WRONG: dict[str, list[Any]] = {
    "orientation": ["film", 3, None],
    "seed": [-1, 2**63, 1.5, "x"],
    "mean_damping": [-0.1, "much", float("nan"), float("inf")],
    "length_power": [-0.1, 1.1, "loud"],
    "length_cap": [0, -5, "long"],
    "presence": [-0.1, 11, "there"],
    "hidden": [0, -5, (), (10, 0), "wide", 1.5, True, None],
    "activation": ["relu", ""],
    "output": ["relu", ""],
    "noise": ["pink", 1],
    "noise_ratio": [-0.1, 1.1, float("nan")],
    "cold_ratio": [-0.1, 1.1, float("nan"), "few"],
    "noise_std": [-1, float("inf")],
    "alpha": [-1, "a"],
    "beta": [-1, "b"],
    "epochs": [0, -3, 1.5, "many"],
    "batch": [0, -1, "big"],
    "learning_rate": [0, -0.1, float("inf"), "fast"],
    "learning_rate_decay": [-0.1],
    "weight_decay": [-0.1],
    "validation": [-0.1, 1, 2],
    "patience": [0],
    "decoder": ["magic", 3],
    "neighbours": [-1, "x"],
    "refit": ["perhaps", 7],
    "engine": ["diesel"],
    "device": [""],
    "threads": [-1, 1025],
    "checkpoint_seconds": [-1],
    "pretrain": ["perhaps"],
    "pretrain_epochs": [0],
    "inner_epochs": [0],
    "inner_batch": [0],
    "inner_learning_rate": [0],
    "inner_learning_rate_decay": [-1],
    "inner_weight_decay": [-1],
    "inner_momentum": [-0.1, 1],
    "inner_noise_ratio": [-0.1, 1.1],
    "inner_noise_std": [-1],
    "list_goal": ["later", 1],
    "list_rank": [0, 1.5, 10**6, "many"],
    "list_penalty": [0, -1, float("nan"), "much"],
    "popularity_discount": [-0.1, 1.1, "some"],
    "list_grade_power": [0, 11, "steep"],
    "confidence": [-1, 6, "sure"],
    "half_life": [-1, "90 days", "d", float("inf")],
}


def test_every_setting_has_wrong_values_here() -> None:
    assert set(WRONG) == set(CFNSettings.model_fields)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_a_wrong_value_is_named_on_one_line(name: str, value: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        CFN(**{name: value})
    message = str(caught.value)
    assert f"'{name}'" in message
    assert "Got" in message
    assert "\n" not in message
    assert "pydantic" not in message
    assert "Input should" not in message


@pytest.mark.parametrize(
    ("name", "suggestion"), [("epoch", "epochs"), ("learning-rate", "learning_rate"), ("hiden", "hidden")]
)
def test_an_unknown_setting_suggests_a_known_one(name: str, suggestion: str) -> None:
    with pytest.raises(SettingsError, match=f"no setting '{name}'; did you mean '{suggestion}'"):
        CFNSettings.of({name: 3})


def test_an_unknown_setting_that_is_like_no_other_lists_all() -> None:
    with pytest.raises(SettingsError, match=r"no setting 'zzz'; known: .*epochs"):
        CFN(zzz=3)


def test_steps_that_flip_the_weights_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"learning_rate \* weight_decay must be below 1.* Got 2\.0 \* 0\.5"):
        CFN(learning_rate=2.0, weight_decay=0.5)


@pytest.mark.parametrize("hidden", [(5,), (5, 5), (5, 3, 4), (5, 3, 3, 5), (5, 4, 3, 4)])
def test_only_a_symmetric_stack_can_be_pre_trained(hidden: tuple[int, ...]) -> None:
    with pytest.raises(SettingsError, match=r"symmetric stack .* Got hidden = 5"):
        CFN(hidden=hidden, pretrain=True)


def test_symmetric_stacks_of_any_depth() -> None:
    for hidden in ((5, 3, 5), (5, 4, 3, 4, 5)):
        assert CFN(hidden=hidden, pretrain=True).settings.hidden == hidden


def test_a_single_layer_can_be_a_number() -> None:
    assert CFNSettings.of({"hidden": 7}).hidden == (7,)
    assert CFNSettings.of({"hidden": [7, 5, 7]}).hidden == (7, 5, 7)


def test_defaults_follow_the_orientation() -> None:
    user, item = CFNSettings.of({"orientation": "user"}), CFNSettings.of({})
    assert item.orientation == "item"
    for name in ("batch", "hidden", "weight_decay"):
        assert getattr(user, name) != getattr(item, name)
        assert getattr(item.changed({"orientation": "user"}), name) == getattr(user, name)
        assert getattr(user.changed({"orientation": "item"}), name) == getattr(item, name)
        assert getattr(user.changed({"epochs": 3}), name) == getattr(user, name)


def test_what_was_chosen_stays_when_the_orientation_changes() -> None:
    chosen = CFNSettings.of({"batch": 99, "seed": 4}).changed({"orientation": "user", "epochs": 2})
    assert (chosen.batch, chosen.seed, chosen.epochs, chosen.orientation) == (99, 4, 2, "user")
    assert CFN(chosen, batch=7).settings == chosen.changed({"batch": 7})


def test_the_preset_of_the_paper() -> None:
    paper = CFNSettings.preset("paper")
    as_in_the_paper = {
        "decoder": "network", "output": "tanh", "activation": "tanh", "noise": "mask", "hidden": (700,),
        "presence": 0, "length_power": 0, "mean_damping": 0, "cold_ratio": 0, "alpha": 1, "beta": 0.6, "epochs": 15,
    }  # fmt: skip
    for name, value in as_in_the_paper.items():
        assert getattr(paper, name) == value, name
    assert paper.seed == CFNSettings().seed
    changed = CFNSettings.preset("paper", orientation="user", epochs=3)
    assert (changed.epochs, changed.batch, changed.presence, changed.decoder) == (3, paper.batch, 0, "network")
    assert CFN(CFNSettings.preset("paper"), seed=2).settings == CFNSettings.preset("paper", seed=2)


def test_the_fast_preset_trains_once() -> None:
    fast = CFNSettings.preset("fast", orientation="user")
    assert (fast.validation, fast.decoder, fast.orientation) == (0, "process", "user")
    assert fast.epochs is not None
    assert fast.epochs < 15  # the fewest of the default


def test_presets_are_checked_too() -> None:
    with pytest.raises(SettingsError, match="there is no preset 'book'; known: paper, fast"):
        CFNSettings.preset("book")
    with pytest.raises(SettingsError, match="the setting 'epochs'"):
        CFNSettings.preset("paper", epochs=0)
    for name, (about, values) in PRESETS.items():
        assert about
        assert CFNSettings.preset(name).model_fields_set == set(values)


def test_changes_are_checked_too() -> None:
    with pytest.raises(SettingsError, match="'epochs'"):
        CFNSettings.of({}).changed({"epochs": 0})


def test_settings_are_frozen() -> None:
    settings = CFNSettings.of({})
    with pytest.raises(ValueError, match="frozen"):
        settings.epochs = 3


def test_every_setting_is_described() -> None:
    for name, field in CFNSettings.model_fields.items():
        assert field.description, name


def test_settings_survive_json() -> None:
    settings = CFNSettings.of({"hidden": (7, 3, 7), "orientation": "user", "noise": "gaussian"})
    assert CFNSettings.of(settings.model_dump(mode="json")) == settings


def write(folder: Path, text: str) -> Path:
    path = folder / "settings.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_with_and_without_sections(tmp_path: Path) -> None:
    flat = write(tmp_path, 'orientation = "user"\nhidden = [7, 5, 7]\nepochs = 3\nrefit = false\n')
    expected = {"orientation": "user", "hidden": [7, 5, 7], "epochs": 3, "refit": False}
    assert read_settings_file(flat) == expected
    text = '[network]\norientation = "user"\nhidden = [7, 5, 7]\n\n[training]\nepochs = 3\nrefit = false\n'
    assert read_settings_file(write(tmp_path, text)) == expected
    assert CFNSettings.of(expected).hidden == (7, 5, 7)


def test_an_empty_file_sets_nothing(tmp_path: Path) -> None:
    assert read_settings_file(write(tmp_path, "# nothing\n[training]\n")) == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("epochs = 3\n[training]\nepochs = 4\n", "epochs is set twice"),
        ("[a]\nepochs = 3\n[b]\nepochs = 4\n", "epochs is set twice"),
        ("epochs = 3\nepochs = 4\n", "not a TOML file"),
        ("epochs 3\n", "not a TOML file"),
        ("epochs = \n", "not a TOML file"),
    ],
)
def test_broken_files(tmp_path: Path, text: str, problem: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(SettingsError, match=problem) as caught:
        read_settings_file(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no such settings file"):
        read_settings_file(tmp_path / "missing.toml")
    with pytest.raises(SettingsError, match="cannot be read"):
        read_settings_file(tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match="not a TOML file"):
        read_settings_file(tmp_path / "binary.toml")


def test_a_wrong_type_in_a_file(tmp_path: Path) -> None:
    values = read_settings_file(write(tmp_path, '[training]\nepochs = "many"\n'))
    with pytest.raises(SettingsError, match=r"'epochs'.*'many'"):
        CFNSettings.of(values)


def test_every_setting_has_a_label_and_a_sentence() -> None:
    labels = [field.title for field in CFNSettings.model_fields.values()]
    assert all(labels)
    assert len(set(labels)) == len(labels)
    assert all(field.description for field in CFNSettings.model_fields.values())
