"""What is made of the documentation: pages that are made from the code are up to date, pictures, and the site."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest

from doc_pages import DOCS, ROOT

from conftest import require


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def generate() -> ModuleType:
    return load(DOCS / "generate.py")


@pytest.mark.parametrize("name", ["settings.md", "commands.md"])
def test_generated_page_is_up_to_date(generate: ModuleType, name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == generate.pages()[name], "run: python docs/generate.py"


def test_every_setting_and_every_option_has_a_meaning(generate: ModuleType) -> None:
    text = generate.settings_page()
    for section, value in generate.Config():
        for name in getattr(type(value), "model_fields", ()):
            assert re.search(rf"^\| `{section}\.{name}` \|.+\|.+\| \S.+ \|$", text, re.MULTILINE), f"{section}.{name}"
    for line in generate.commands_page().splitlines():
        if line.startswith("| `-"):
            assert line.split(" | ")[-1].strip(" |"), line


def test_stale_pages_are_noticed(generate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(DOCS / "intros", tmp_path / "intros")
    monkeypatch.setattr(generate, "DOCS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    with pytest.raises(SystemExit) as stale:
        generate.main()
    assert stale.value.code == 1
    assert not (tmp_path / "settings.md").exists()
    monkeypatch.setattr(sys, "argv", ["generate.py"])
    with pytest.raises(SystemExit) as written:
        generate.main()
    assert written.value.code == 0
    assert (tmp_path / "settings.md").read_text(encoding="utf-8") == generate.settings_page()


def test_pictures_can_be_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = load(DOCS / "pictures" / "draw.py")
    monkeypatch.setattr(sys, "argv", ["draw.py", str(tmp_path)])
    draw.main()
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {path.name for path in (DOCS / "pictures").glob("*.svg")}
    for name in drawn:
        assert "<svg" in (tmp_path / name).read_text(encoding="utf-8")
    concepts = (DOCS / "concepts.md").read_text(encoding="utf-8")
    assert drawn == set(re.findall(r"pictures/(\w+\.svg)", concepts))


def test_segments_drawn_are_those_described() -> None:
    from ssnt.decode.align import find_segments

    draw = load(DOCS / "pictures" / "draw.py")
    distribution = draw.invented()
    path = distribution.viterbi()[0]
    assert path.positions == draw.WRITTEN_AT
    found = find_segments(distribution.posteriors().emit[0], path.positions)
    spans = [
        ("".join(draw.SOURCE[s.src_start : s.src_end]), "".join(draw.TARGET[s.tgt_start : s.tgt_end])) for s in found
    ]
    assert spans == [("z", "gez"), ("o", "o"), ("c", "c"), ("ke", "k"), ("n", ""), ("</s>", "t</s>")]


class Resources(HTMLParser):
    """Collects what a browser fetches to show a page, and not what one may click on."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "link" and given.get("rel") in {"canonical", "next", "prev"}:
            return
        name = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src"}.get(tag)
        if name is not None and (value := given.get(name)):
            self.found.append(value)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require("mkdocs", "the documentation is built with it")
    require("material", "the documentation's theme")
    place = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", place / "site"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return place / "site"


def test_site_has_every_page_and_nothing_else(site: Path) -> None:
    pages = {path.stem for path in DOCS.glob("*.md")}
    assert {path.stem for path in site.glob("*.html")} - {"404"} == pages
    assert not list(site.rglob("*.py"))
    assert not (site / "intros").exists()


def test_site_fetches_nothing_from_elsewhere(site: Path) -> None:
    for page in site.glob("*.html"):
        resources = Resources()
        resources.feed(page.read_text(encoding="utf-8"))
        assert len(resources.found) > 3
        assert [one for one in resources.found if re.match(r"(https?:)?//", one)] == [], page.name
    assert not re.search(r"url\(\s*['\"]?https?:", "".join(path.read_text() for path in site.rglob("*.css")))
