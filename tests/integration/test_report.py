"""Reports: one file without addresses, its contents, and its behavior in a browser."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from select import select
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from lithowave import OutputError
from lithowave.compare import compare_runs
from lithowave.output import load_seismograms
from lithowave.report import (
    ShotRow,
    model_section,
    number_text,
    report_run,
    report_survey,
    source_signals,
    spectrum,
)
from lithowave.shots import SurveyFolder
from mpi_runs import on_ranks
from small_machine import hide_packages
from small_run import lithowave, settings, write_small
from small_survey import survey_text

pytest.importorskip("plotly")

TITLE = "small <script>alert(1)</script> & \"quoted\""
LAYERS = "{layers: [{top: 0, vp: 4000, vs: 2300, rho: 2400}, {top: -300, vp: 5000, vs: 2900, rho: 2600}]}"
VOID = {"meta", "img", "br", "link", "input", "hr"}


class Elements(HTMLParser):
    """The elements of a page: tags with attributes, texts of headings, and addresses. Fails if a tag is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self._open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open:
            self.texts[self._open[-1]][-1] += data

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A small run with its report."""
    folder = tmp_path_factory.mktemp("report")
    path = write_small(folder, ("{homogeneous: {vp: 5000, vs: 2900, rho: 2600}}", LAYERS))
    directory = folder / "out"
    title = TITLE.replace('"', "'")
    output = lithowave("run", path, "-o", directory, *settings(f'title="{title}"', "output.pressure=true"), "--report")
    assert f"report:  {directory / 'report.html'}" in output
    return directory


@pytest.fixture(scope="module")
def browser():
    program = find_browser()
    if program is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium-headless-shell)")
    with Browser(program) as browser:
        yield browser


def page_of(path: Path) -> Elements:
    return Elements(path.read_text(encoding="utf-8"))


def test_a_report_is_one_file_without_addresses(run) -> None:
    page = page_of(run / "report.html")
    addresses = [
        value for _, attributes in page.tags for name, value in attributes.items()
        if name in ("src", "href", "data", "action", "srcset", "poster")
    ]  # fmt: skip
    assert addresses and all(address.startswith(("data:", "#section-")) for address in addresses)
    style = "".join(page.texts["style"])
    assert "url(" not in style and "@import" not in style
    policy = next(a["content"] for a in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'") and "http" not in policy


def test_a_report_is_structured_and_has_alternative_texts(run) -> None:
    page = page_of(run / "report.html")
    assert page.all("html") == [{"lang": "en"}]
    assert page.texts["h1"] == [TITLE.replace('"', "'")]
    assert [text for text in page.texts["h2"]] == [
        "Overview", "Map", "Source", "Model", "Record section", "Seismograms", "Peak values", "Wavefield", "Timings",
        "Provenance", "Files",
    ]  # fmt: skip
    assert page.all("img") and all(attributes["alt"] for attributes in page.all("img"))
    assert all(a["aria-label"] for a in page.all("div") if a.get("role") in ("img", "region"))
    assert {a["for"] for a in page.all("label")} == {a["id"] for a in page.all("select")}
    identifiers = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))


def test_a_report_states_the_facts_of_the_run(run) -> None:
    text = (run / "report.html").read_text(encoding="utf-8").split('<script type="application/json"')[0]
    facts = json.loads((run / "run.json").read_text(encoding="utf-8"))
    seismograms = load_seismograms(run)
    assert f"<td>{facts['plan']['steps']}</td>" in text and facts["started"] in text and facts["processor"] in text
    assert f">{number_text(facts['loop_s'])}</td>" in text
    peak = number_text(float(np.abs(seismograms.data[0, 2]).max()))  # in m/s, the unit of the table here
    rows = re.findall(r"<tr>(.*?)</tr>", text, re.DOTALL)
    [row] = [row for row in rows if row.startswith("<td>XX.S01</td>") and "number" in row]
    assert f">{peak}</td>" in row, (peak, row)
    assert '<th scope="row">Moment</th><td>1.259e+15 N m (Mw 4.00)</td>' in text
    assert "&lt;script&gt;alert(1)" in text and "<script>alert" not in text


def test_numbers_are_embedded_in_full_precision(run) -> None:
    from base64 import b64decode

    text = (run / "report.html").read_text(encoding="utf-8")
    data = json.loads(text.split('id="report-data">')[1].split("</script>")[0])
    seismograms = load_seismograms(run)
    waves = data["waves"]
    names = [receiver["name"] for receiver in waves["receivers"]]
    assert sorted(names) == sorted(seismograms.names)
    for key, expected in (("E", seismograms.data[:, 0]), ("P", seismograms.pressure)):
        values = np.frombuffer(b64decode(waves["runs"][0]["components"][key]), "<f4").reshape(len(names), -1)
        assert np.array_equal(values, expected[[seismograms.index(name) for name in names]].astype("f4"))
    assert [component["unit"] for component in waves["components"][:3]] == [waves["components"][0]["unit"]] * 3


def test_runs_that_did_not_finish_have_a_report(run, tmp_path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    facts = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    facts |= {"exit_state": "failed", "error": "the fields <grow>", "failed_at_step": 7, "warnings": ["a < b"]}
    (folder / "run.json").write_text(json.dumps(facts), encoding="utf-8")
    (folder / "simulation.yaml").write_text("title: a [broken", encoding="utf-8")
    for name in ("snapshots", "peak_motion.h5", "report.html"):
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    text = report_run(folder).read_text(encoding="utf-8")
    Elements(text)
    assert "failed at step 7: the fields &lt;grow&gt;" in text and "<li>a &lt; b</li>" in text
    assert "The report lacks the model and the source" in text and "Wavefield</h2>" not in text
    (folder / "seismograms.h5").unlink()
    assert "Seismograms</h2>" not in report_run(folder).read_text(encoding="utf-8")


@pytest.mark.mpi
def test_the_first_rank_writes_the_report(tmp_path) -> None:
    output = on_ranks(2, "run", str(write_small(tmp_path)), "-o", str(tmp_path / "out"), "--report")
    assert output.count("report:  ") == 1 and (tmp_path / "out" / "report.html").stat().st_size > 1e6


def test_a_folder_without_a_run_is_refused(tmp_path) -> None:
    with pytest.raises(OutputError, match=r"is not a run folder: run.json cannot be read"):
        lw.write_report(tmp_path)
    assert "the folder does not exist" in lithowave("report", tmp_path / "no", status=2)


def test_without_plotly_a_run_with_a_report_does_not_begin(tmp_path, monkeypatch) -> None:
    hide_packages(monkeypatch, "plotly")
    output = lithowave("run", write_small(tmp_path), "-o", tmp_path / "out", "--report", status=1)
    assert 'the report needs the package plotly: pip install "lithowave[report]"' in output
    assert not (tmp_path / "out").exists()


def test_a_survey_has_a_table_of_its_shots(tmp_path) -> None:
    (tmp_path / "survey.yaml").write_text(survey_text(), encoding="utf-8")
    simulation = lw.Simulation.from_file(tmp_path / "survey.yaml", {"output.directory": str(tmp_path / "out")})
    SurveyFolder.prepare(simulation)
    page = page_of(lw.write_report(tmp_path / "out"))
    assert page.texts["td"].count("-300") == 3 and page.texts["span"] == ["waiting"] * 3
    shots = [
        ShotRow(1, "shot_1", "first <b>", (0.0, 1.5, -20.0), "finished", "finished: in 3 s"),
        ShotRow(2, "shot_2", "", (10.0, 0.0, -20.0), "failed", "failed: no memory"),
    ]
    (tmp_path / "out" / "shot_1").mkdir()
    (tmp_path / "out" / "shot_1" / "report.html").touch()
    path = report_survey(tmp_path / "out", {"lithowave": "0.1"}, "title: t\n", shots, tmp_path / "here.html")
    text = path.read_text(encoding="utf-8")
    assert '<a href="out/shot_1/report.html">report</a>' in text and "first &lt;b&gt;" in text
    assert '<span class="state-failed">failed</span>' in text and "2 shots: 1 finished, 1 failed" in text


@pytest.fixture(scope="module")
def comparison(run, tmp_path_factory):
    """The report of a comparison of a run with itself, in which one receiver differs."""
    compared = compare_runs(run, run, wavelets=False)
    compared.data_a[1] *= 1.5
    compared.relative_l2[1] = 0.5
    return compared.report(tmp_path_factory.mktemp("comparison") / "comparison.html")


def test_a_comparison_shows_both_runs(comparison, run, tmp_path) -> None:
    page = page_of(comparison)
    assert page.texts["h2"] == ["Overview", "Traces", "Misfits", "Figure"]
    output = lithowave("compare", run, run, "--report", tmp_path / "c.html")
    assert f"report:  {tmp_path / 'c.html'}" in output and page_of(tmp_path / "c.html").texts["h1"]
    assert "expected a file" in lithowave("compare", run, run, "--report", tmp_path, status=2)


def test_the_section_of_the_model_is_that_of_the_description(run) -> None:
    simulation = lw.Simulation.from_file(run / "simulation.yaml")
    axis, along, z, (vp, vs) = model_section(simulation)
    assert axis in ("x", "y") and (along[0], along[-1]) == (-600.0, 600.0)
    assert np.array_equal(vp, np.where(z > -300.0, 4000.0, 5000.0)[:, None] * np.ones(len(along)))
    assert set(np.unique(vs)) == {2300.0, 2900.0}
    wedge = simulation.with_overrides({"material": {"homogeneous": {"vp": 5000, "vs": 2900, "rho": 2600}}})
    assert np.ptp(model_section(wedge)[3][0]) == 0.0


def test_the_spectrum_is_that_of_the_time_function(run) -> None:
    [signal] = source_signals(lw.Simulation.from_file(run / "simulation.yaml").point_sources())
    frequency, amplitude = spectrum(signal, 10.0)
    assert len(frequency) > 50 and frequency[-1] <= 10.0
    exact = np.exp(-0.5 * (2.0 * np.pi * frequency * 0.06) ** 2)
    assert np.abs(amplitude - exact).max() < 1e-4


def test_moment_rates_are_summed(run) -> None:
    [source] = lw.Simulation.from_file(run / "simulation.yaml").point_sources()
    many = [replace(source, moment=tuple(k * m for m in source.moment)) for k in (1.0, 2.0, 3.0)]
    total, *parts = source_signals(many)
    time = np.linspace(0.0, 0.6, 7)
    assert (total.label, len(parts)) == ("sum of 3 sources", 3)
    assert total.history(time) == pytest.approx(6.0 * parts[0].history(time))
    released = 1e-3 * total.history(np.linspace(-1.0, 2.0, 3001)).sum()
    assert released == pytest.approx(6.0 * 10 ** (1.5 * 4 + 9.1), rel=1e-4)
    forces = [replace(source, moment=None, force=(0.0, 3.0, 4.0))] * 3
    assert [signal.label for signal in source_signals(forces)] == ["source 1", "source 2", "source 3"]
    assert source_signals(forces)[0].history(np.array([0.3]))[0] == pytest.approx(5.0)


PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
TIMEOUT = 60.0  # s, of one command
# The browser reads commands from descriptor 3 and writes to descriptor 4.
LAUNCHER = (
    "import os, sys; a, b = map(int, sys.argv[1:3]); os.dup2(a, 13); os.dup2(b, 14); "
    "os.dup2(13, 3); os.dup2(14, 4); os.execvp(sys.argv[3], sys.argv[3:])"
)


def find_browser() -> str | None:
    """Path of the first of PROGRAMS that is installed and starts."""
    for name in PROGRAMS:
        path = shutil.which(name)
        # On some systems the program is a script that asks the user to install it.
        if path and subprocess.run([path, "--version"], capture_output=True, check=False, timeout=60).returncode == 0:
            return path
    return None


class Browser:
    """A browser with one page. messages : console messages and exceptions; requests : addresses that were requested."""

    def __init__(self, program: str, width: int = 1200, height: int = 900) -> None:
        self._profile = tempfile.mkdtemp(prefix="browser-")
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        arguments = [
            program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--remote-debugging-pipe",
            "--no-first-run", "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
            f"--user-data-dir={self._profile}", "about:blank",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, str(commands), str(answers), *arguments],
            pass_fds=(commands, answers), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(commands)
        os.close(answers)
        self._number, self._buffer, self._events = 0, b"", []
        self._session: str | None = None
        target = self._send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.messages: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._send(f"{domain}.enable")
        self.resize(width, height)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in (self._commands, self._answers):
            os.close(descriptor)
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._profile, ignore_errors=True)

    def open(self, path: Path) -> None:
        """Open a file and wait until it is loaded."""
        self.messages, self.requests = [], []
        self._send("Page.navigate", url=path.resolve().as_uri())
        deadline = time.monotonic() + TIMEOUT
        while self.evaluate("document.readyState") != "complete":
            if time.monotonic() > deadline:
                raise TimeoutError(f"{path} is not loaded")
            time.sleep(0.05)

    def evaluate(self, expression: str) -> Any:
        """Value of a JavaScript expression, or of the promise that it returns."""
        answer = self._send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:500])
        return answer["result"].get("value")

    def resize(self, width: int, height: int, dark: bool = False) -> None:
        """Set the size of the screen, and the color scheme."""
        self._send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._send("Emulation.setEmulatedMedia", features=[scheme])

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Press the mouse button at one point of the screen, move to another point and release it there."""
        steps = [("mouseMoved", start), ("mousePressed", start)]
        steps += [("mouseMoved", tuple(a + part * (b - a) for a, b in zip(start, end, strict=True)))
                  for part in (0.3, 0.6, 1.0)]  # fmt: skip
        for kind, (x, y) in [*steps, ("mouseReleased", end)]:
            pressed = kind != "mouseMoved"
            self._send(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left" if pressed else "none",
                buttons=0 if kind == "mouseReleased" else 1, clickCount=int(pressed),
            )  # fmt: skip
            time.sleep(0.05)

    def _send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer.get("method", ""), answer.get("params", {}))

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select([self._answers], [], [], TIMEOUT)[0]:
                raise TimeoutError("the browser does not answer")
            block = os.read(self._answers, 1 << 20)
            if not block:
                raise RuntimeError("the browser has ended")
            self._buffer += block
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, method: str, event: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(event["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.messages.append(json.dumps(event["exceptionDetails"])[:500])
        elif method == "Runtime.consoleAPICalled" and event["type"] in ("error", "warning", "assert"):
            self.messages.append(json.dumps(event["args"])[:500])
        elif method == "Log.entryAdded" and event["entry"]["level"] in ("error", "warning"):
            self.messages.append(event["entry"]["text"])


# ---- in a browser ----------------------------------------------------------------------------------------------------


def axis_range(browser: Browser, plot: str, axis: str = "xaxis") -> list[float]:
    return browser.evaluate(f"Array.from(document.getElementById('{plot}').layout.{axis}.range)")


def drag_in(browser: Browser, plot: str, start: float, end: float) -> None:
    """Drag the mouse in a plot, between fractions of its width."""
    browser.evaluate(f"document.getElementById('{plot}').scrollIntoView({{block: 'center'}})")
    box = browser.evaluate(
        f"(({{x, y, width, height}}) => ({{x, y, width, height}}))"
        f"(document.querySelector('#{plot} .nsewdrag').getBoundingClientRect())"
    )
    height = box["y"] + 0.5 * box["height"]
    before = axis_range(browser, plot)
    browser.drag((box["x"] + start * box["width"], height), (box["x"] + end * box["width"], height))
    deadline = time.monotonic() + 10.0
    while axis_range(browser, plot) == before and time.monotonic() < deadline:
        time.sleep(0.05)


def test_the_report_renders_without_errors_and_requests(browser, run) -> None:
    browser.resize(1200, 900)
    browser.open(run / "report.html")
    assert browser.messages == []
    assert {address.split(":")[0] for address in browser.requests} <= {"file", "data", "blob"}
    assert [a for a in browser.requests if a.startswith("file")] == [(run / "report.html").as_uri()]
    plots = browser.evaluate("[...document.querySelectorAll('.plot')].map(p => p.querySelectorAll('path').length)")
    assert len(plots) == 7 and min(plots) > 3
    assert browser.evaluate("document.querySelector('h1').innerText") == TITLE.replace('"', "'")
    assert "Peak values" in browser.evaluate("document.body.innerText")
    pictures = browser.evaluate("[...document.images].map(i => i.naturalWidth)")
    assert len(pictures) + browser.evaluate("document.querySelectorAll('video').length") >= 3 and min(pictures) > 50


def test_a_trace_can_be_zoomed(browser, run) -> None:
    browser.resize(1200, 900)
    browser.open(run / "report.html")
    low, high = axis_range(browser, "traces")
    drag_in(browser, "traces", 0.25, 0.5)
    zoomed = axis_range(browser, "traces")
    assert zoomed == pytest.approx([low + 0.25 * (high - low), low + 0.5 * (high - low)], abs=0.02 * (high - low))
    browser.evaluate("document.getElementById('receiver').value = '1'")
    browser.evaluate("document.getElementById('receiver').dispatchEvent(new Event('change'))")
    assert axis_range(browser, "traces") == zoomed  # the same times of another receiver
    drag_in(browser, "section", 0.4, 0.8)
    assert axis_range(browser, "section") != [low, high]
    assert browser.messages == []


def test_the_traces_are_those_of_the_file(browser, run) -> None:
    browser.open(run / "report.html")
    seismograms = load_seismograms(run)
    name = browser.evaluate("document.getElementById('receiver').selectedOptions[0].innerText").split(",")[0]
    drawn = browser.evaluate("Array.from(document.getElementById('traces').data[2].y)")
    vertical = seismograms[name][2]
    assert browser.evaluate("document.getElementById('traces').layout.yaxis3.title.text") == "m/s"
    assert np.allclose(drawn, vertical, atol=1e-6 * np.abs(vertical).max())
    radial = browser.evaluate(
        "(() => { document.getElementById('component').value = 'R';"
        " document.getElementById('component').dispatchEvent(new Event('change'));"
        " return document.getElementById('section').data.map(t => Array.from(t.y)); })()"
    )
    from lithowave.output import component, offsets

    expected = component(seismograms, "R")[seismograms.index(name)]
    place = offsets(seismograms)[0][seismograms.index(name)] / 1000
    moved = np.array(radial[0]) - place
    assert np.allclose(moved / np.abs(moved).max(), expected / np.abs(expected).max(), atol=1e-4)


@pytest.mark.parametrize("dark", [False, True])
def test_a_report_reads_well_at_phone_width(browser, run, comparison, dark) -> None:
    browser.resize(390, 844, dark)
    for path in (run / "report.html", comparison):
        browser.open(path)
        assert browser.evaluate("document.documentElement.scrollWidth") <= 390
        wide = browser.evaluate(
            "[...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll, svg, pre, .plot') &&"
            " e.getBoundingClientRect().right > 391).map(e => e.tagName)"
        )
        assert wide == []
        assert float(browser.evaluate("parseFloat(getComputedStyle(document.body).fontSize)")) >= 16.0
        background = browser.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(18, 23, 29)" if dark else "rgb(255, 255, 255)")
        plot = browser.evaluate("document.getElementById('traces').layout.paper_bgcolor")
        assert plot == ("#12171d" if dark else "#ffffff")
        assert browser.messages == []


def test_a_comparison_draws_two_runs(browser, comparison) -> None:
    browser.resize(1200, 900)
    browser.open(comparison)
    assert browser.evaluate("document.getElementById('traces').data.length") == 6
    first, second = browser.evaluate("document.getElementById('traces').data.slice(0, 2).map(t => Array.from(t.y))")
    assert np.allclose(first, 1.5 * np.array(second), rtol=1e-5)  # the receiver with the largest misfit is first
    assert browser.messages == []


def test_errors_in_a_page_are_noticed(browser, tmp_path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<title>t</title><script>console.error('one'); undefined.x</script>", encoding="utf-8")
    browser.open(page)
    assert len(browser.messages) == 2
