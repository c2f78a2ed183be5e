"""JupyterLab opens the explorer: the panes follow each other and the keys, and nothing captured runs.

The capture is hostile: its values, a table and a file are named like HTML that would run or load something.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from cdcwb.explore import bookmarks_of
from tests.browser.chrome import errors, opened, requests, waiting
from tests.browser.lab import PANES, lab, run_all
from tests.explore_captures import saved
from tests.hostile_messages import LOADS, RUNS, hostile

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "notebooks" / "07_explore.ipynb"


class Page:
    """The explorer on a page of JupyterLab."""

    def __init__(self, chrome: Chrome, url: str, capture: Path) -> None:
        self.chrome = chrome
        self.url = url
        self.capture = capture

    def all(self, selector: str) -> list[str]:
        """The texts of the nodes that a selector finds in the explorer."""
        script = "return [...document.querySelectorAll(arguments[0])].map(node => node.textContent)"
        found: list[str] = self.chrome.execute_script(script, f"{PANES} {selector}")
        return found

    def until(self, script: str, *arguments: object) -> object:
        """Wait until a script is true, and say what it gave."""
        return waiting(self.chrome).until(lambda c: c.execute_script(f"return {script}", *arguments))

    def press(self, *keys: str) -> None:
        """Press keys where the page has its focus, one after the other, each once the one before has been answered."""
        for key in keys:
            ActionChains(self.chrome).send_keys(key).perform()
            self.settled()

    def filter(self, text: str, status: str) -> None:
        """Type a filter and wait until the status line begins so."""
        line = self.chrome.find_element(By.CSS_SELECTOR, f"{PANES} input.filter")
        line.clear()
        line.send_keys(text, Keys.ENTER)
        self.until(f"document.querySelector('{PANES} .status').textContent.startsWith(arguments[0])", status)
        self.settled()

    def settled(self) -> None:
        """Wait until the kernel has answered all that the panes asked for, and they show it."""
        self.until(f"document.querySelector('{PANES}').getAttribute('aria-busy') === 'false'")

    def marked(self) -> str:
        """The bytes that are highlighted, as hex."""
        return "".join(self.all(".dump i.on"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    with opened(1400, 1300) as chrome:
        yield chrome


@pytest.fixture(scope="module")
def page(browser: Chrome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    folder = tmp_path_factory.mktemp("explore")
    capture = saved(hostile(folder / "capture"), folder / "saved", parts=2)
    content = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    parameters = next(cell for cell in content["cells"] if "parameters" in cell["metadata"].get("tags", ()))
    parameters["source"] = "".join(parameters["source"]).replace('"data/gbase8s"', repr(str(capture)))
    (folder / "lab").mkdir()
    (folder / "lab" / "explore.ipynb").write_text(json.dumps(content), encoding="utf-8")
    home = folder / "home"
    home.mkdir()
    with lab(folder / "lab", home) as url:
        browser.get("about:blank")
        errors(browser), requests(browser)
        run_all(browser, url, "explore.ipynb")
        made = Page(browser, url, capture)
        made.settled()
        browser.execute_script(f"document.querySelector('{PANES}').scrollIntoView()")
        yield made


@pytest.fixture(autouse=True)
def fresh(page: Page) -> None:
    """Every test begins with all records, the first being chosen."""
    page.chrome.execute_script(f"document.querySelector('{PANES}').focus()")
    page.press(Keys.ESCAPE, Keys.ESCAPE, "1")
    page.filter("", "380 records")
    page.press(Keys.HOME)


def test_all_cells_of_the_notebook_run(page: Page) -> None:
    cells = "window.jupyterapp.shell.currentWidget.content.widgets.filter(cell => cell.model.type === 'code')"
    page.until(f"{cells}.every(cell => cell.model.executionCount)")
    wrong = page.chrome.find_elements(
        By.CSS_SELECTOR, '.jp-RenderedText[data-mime-type="application/vnd.jupyter.stderr"]'
    )
    assert [output.text for output in wrong] == []
    assert page.chrome.find_elements(By.CSS_SELECTOR, '[data-mime-type="application/vnd.jupyter.error"]') == []


def test_a_filter_is_typed_a_record_chosen_and_fields_and_bytes_follow(page: Page) -> None:
    page.filter('table == "shop.customer" and operation == "UPDATE"', "43 of 380 records")
    lines = page.chrome.find_elements(By.CSS_SELECTOR, f"{PANES} .list .line")
    assert {line.find_element(By.CSS_SELECTOR, ".what").text for line in lines} == {"UPDATE"}
    row = lines[2].get_attribute("data-row")
    lines[2].click()
    page.until(f"document.querySelector('{PANES} .list .chosen')?.dataset.row === arguments[0]", row)
    page.settled()
    field = next(
        one
        for one in page.chrome.find_elements(By.CSS_SELECTOR, f"{PANES} .field")
        if one.find_element(By.CSS_SELECTOR, ".name").text == "operation"
    )
    length = int(field.get_attribute("data-length") or 0)
    page.chrome.execute_script("arguments[0].scrollIntoView({block: 'center'})", field)
    field.click()
    text = bytes.fromhex(page.marked()).decode()
    assert len(text) == length
    assert text.startswith('"operation":"UPDATE"')


def test_a_byte_leads_to_its_field(page: Page) -> None:
    page.filter('table == "shop.customer" and operation == "UPDATE"', "43 of 380 records")
    page.chrome.execute_script(f"document.querySelector('{PANES} .bytes').scrollTop = 0")
    page.until(f"document.querySelector('{PANES} [data-byte=\"9\"]')")
    page.chrome.find_element(By.CSS_SELECTOR, f'{PANES} .dump i[data-byte="9"]').click()
    assert page.all(".field.chosen .name") == ["magic"]
    assert bytes.fromhex(page.marked()).startswith(b'"magic":')


def test_a_wrong_filter_names_the_nearest_column_and_leaves_the_records(page: Page) -> None:
    page.press("/")
    page.press('tabel == "x"', Keys.ENTER)
    page.until(f"document.querySelector('{PANES} .said').textContent !== ''")
    assert "no column 'tabel'. Did you mean 'table'?" in page.all(".said")[0]
    assert page.all(".status span")[0] == "380 records"
    assert len(page.all(".list .line")) > 5


def test_what_may_come_next_is_offered_and_taken_with_the_keys(page: Page) -> None:
    page.press("/", "tab")
    page.until(f"[...document.querySelectorAll('{PANES} .offers > *')].map(one => one.textContent).join() === 'table'")
    page.press(Keys.TAB, "== ")
    page.until(f"[...document.querySelectorAll('{PANES} .offers > *')].some(one => one.textContent.includes('shop.'))")
    page.press('"shop.cust')
    page.until(f"document.querySelector('{PANES} .offers').textContent === '\"shop.customer\"'")
    page.press(Keys.ARROW_DOWN, Keys.ENTER)
    page.until(f"document.querySelector('{PANES} input.filter').value === 'table == \"shop.customer\" '")
    page.until(f"document.querySelector('{PANES} .offers').textContent === 'andor'")
    page.press(Keys.ESCAPE, Keys.ENTER)
    page.until(
        f"document.querySelector('{PANES} select[aria-label=table]').selectedOptions[0].text === 'shop.customer'"
    )
    assert not page.all(".offers > *")


def test_a_list_of_values_narrows_and_shows_what_is_asked_for(page: Page) -> None:
    choose = """const list = document.querySelector(arguments[0]);
        list.value = [...list.options].find(one => one.text === arguments[1]).value;
        list.dispatchEvent(new Event('change'));"""
    for name, value in (("table", "shop.customer"), ("operation", "UPDATE"), ("operation", "DELETE"), ("table", "any")):
        page.chrome.execute_script(choose, f"{PANES} select[aria-label={name}]", value)
        page.until(
            f"document.querySelector('{PANES} select[aria-label={name}]').selectedOptions[0].text === arguments[0]"
            f" && document.querySelector('{PANES}').getAttribute('aria-busy') === 'false'",
            value,
        )
    page.until(f"document.querySelector('{PANES} input.filter').value === 'operation == \"DELETE\"'")


def test_a_cell_is_a_filter_by_its_value(page: Page) -> None:
    cell = page.chrome.find_elements(By.CSS_SELECTOR, f"{PANES} .list [data-colour]")[0]
    name = cell.text
    ActionChains(page.chrome).context_click(cell).perform()
    page.until(f"document.querySelector('{PANES} [data-narrow=transaction]')?.textContent.includes(arguments[0])", name)
    page.press(Keys.ENTER)
    page.until(f"document.querySelector('{PANES} input.filter').value.startsWith('transaction == ')")
    page.settled()
    assert set(page.all(".list [data-colour]")) == {name}
    colours = page.chrome.find_elements(By.CSS_SELECTOR, f"{PANES} .list [data-colour]")
    assert len({one.get_attribute("data-colour") for one in colours}) == 1
    page.press("f")
    page.until(f"document.querySelectorAll('{PANES} [data-narrow]').length >= 5")


def test_values_are_searched_and_the_list_shows_what_is_found(page: Page) -> None:
    page.press("/", "after.dis")
    page.until(f"document.querySelector('{PANES} .offers').textContent === 'after.discount'")
    page.press(Keys.TAB, "> 45", Keys.ENTER)
    page.until(
        f"/^searched (\\d+) of \\1 records, \\d+ found$/.test(document.querySelector('{PANES} .searching').innerText)"
    )
    page.settled()
    sentence = page.all(".searching span")[0]
    shown = int(page.all(".status span")[0].split()[0])
    assert sentence.endswith(f" {shown} found")
    assert shown > 0
    page.press("2")
    page.until(f"document.querySelectorAll('{PANES} [data-image=after]').length > 0")
    assert float(page.all("[data-image=after][data-column=discount]")[0]) > 45
    page.press("b")
    page.until(f"document.querySelector('{PANES} .searching').hidden")


def test_a_field_and_a_value_are_filters(page: Page) -> None:
    page.filter('table == "shop.customer" and operation == "UPDATE"', "43 of 380 records")
    fields = page.chrome.find_elements(By.CSS_SELECTOR, f"{PANES} .field")
    transaction = next(one for one in fields if one.text.startswith("transactionId"))
    ActionChains(page.chrome).context_click(transaction).perform()
    page.until(f"document.querySelector('{PANES} .narrow button')?.textContent.startsWith('transaction == ')")
    page.press(Keys.ENTER)
    page.until(f"document.querySelector('{PANES} input.filter').value.includes(' and transaction == ')")
    page.press("2")
    page.until(f"document.querySelectorAll('{PANES} [data-image=before]').length > 0")
    page.chrome.execute_script(f"document.querySelector('{PANES} [data-image=before]').focus()")
    page.press("f")
    page.until(f"document.querySelector('{PANES} .narrow button')?.textContent.startsWith('before.customer_id == ')")
    page.press(Keys.ENTER)
    page.until(f"document.querySelector('{PANES} input.filter').value.includes(' and before.customer_id == ')")
    page.until(f"document.querySelector('{PANES} .searching').innerText.startsWith('searched ')")
    page.settled()


def test_a_value_that_there_is_not_is_named_with_the_nearest(page: Page) -> None:
    page.filter('table == "shop.custmer"', "0 of 380 records")
    said = page.all(".nothing")[0]
    assert said == "No record passes this filter. No table is 'shop.custmer'. Did you mean 'shop.customer'?"


def test_records_of_a_transaction_have_its_colour(page: Page) -> None:
    cells = page.chrome.execute_script(
        f"return [...document.querySelectorAll('{PANES} .list [data-column=transaction]')].map(cell =>"
        " [cell.textContent, cell.textContent ? getComputedStyle(cell).borderLeftColor : null])"
    )
    colours: dict[str, set[str]] = {}
    for transaction, colour in cells:
        if transaction:
            colours.setdefault(transaction, set()).add(colour)
    assert len(colours) > 3
    assert all(len(of) == 1 for of in colours.values())
    assert len(set().union(*colours.values())) > 2


def test_columns_are_made_narrow_and_hidden(page: Page) -> None:
    heads = lambda: page.all(".head .heading")  # noqa: E731
    before = heads()
    script = f"return document.querySelector('{PANES} .head .heading[title=table]').getBoundingClientRect().width"
    wide = page.chrome.execute_script(script)
    grip = page.chrome.find_element(By.CSS_SELECTOR, f"{PANES} .heading[title=table] .grip")
    ActionChains(page.chrome).drag_and_drop_by_offset(grip, -40, 0).perform()
    assert abs(page.chrome.execute_script(script) - (wide - 40)) <= 2
    page.chrome.find_element(By.XPATH, "//*[contains(@class,'cdcwb-explorer')]//button[text()='Columns']").click()
    page.chrome.find_element(By.XPATH, "//label[contains(., ' length')]/input").click()
    assert heads() == [name for name in before if name != "length"]
    lines = page.chrome.find_elements(By.CSS_SELECTOR, f"{PANES} .list .line:first-child > *")
    assert len(lines) == len(before) - 1
    page.chrome.find_element(By.XPATH, "//button[contains(., 'as wide as at first')]").click()
    assert heads() == before
    assert page.chrome.execute_script(script) == wide


def test_the_keys_move_follow_and_come_back(page: Page) -> None:
    page.press("j", "j", Keys.ARROW_DOWN, "k")
    page.until(f"document.querySelector('{PANES} .list .chosen')?.dataset.row === '2'")
    page.press("n")
    page.until(f"document.querySelector('{PANES} .list .chosen .problem')?.textContent")
    page.press("g")
    page.press("record 14", Keys.ENTER)
    page.until(f"document.querySelector('{PANES} .list .chosen')?.dataset.row === '13'")
    page.press("t")
    page.until(f"document.querySelector('{PANES} input.filter').value.startsWith('transaction == ')")
    page.press("b")
    page.until(f"document.querySelector('{PANES} input.filter').value === ''")
    assert page.chrome.find_elements(By.CSS_SELECTOR, ".jp-Cell") != []  # the keys are not those of the notebook
    cells = page.chrome.execute_script("return window.jupyterapp.shell.currentWidget.content.widgets.length")
    assert cells == 7


def test_values_masks_and_schema_are_shown(page: Page) -> None:
    page.filter('table == "shop.customer" and operation == "UPDATE"', "43 of 380 records")
    page.press("2")
    page.until(f"document.querySelectorAll('{PANES} tr.changed').length > 0")
    page.press("3")
    page.until(f"document.querySelectorAll('{PANES} .bit.set').length > 0")
    page.press("4")
    page.until(f"document.querySelectorAll('{PANES} .body td').length > 0")
    assert "customer_idkey 1" in page.all(".body td")


def test_a_record_is_copied_as_text(page: Page) -> None:
    page.filter('table == "shop.customer" and operation == "UPDATE"', "43 of 380 records")
    page.press("c")
    page.press("3")
    page.until(f"document.querySelector('{PANES} textarea.copy')")
    text = page.chrome.execute_script(f"return document.querySelector('{PANES} textarea.copy').value")
    assert text.startswith('<nds dtdversion="4.0"')
    page.press(Keys.ESCAPE)
    page.until(f"!document.querySelector('{PANES} .veil')")


def test_a_note_is_kept_beside_the_capture(page: Page) -> None:
    page.press("m")
    page.press(RUNS)
    ActionChains(page.chrome).key_down(Keys.CONTROL).send_keys(Keys.ENTER).key_up(Keys.CONTROL).perform()
    page.until(f"document.querySelector('{PANES} .notes').textContent.includes('★')")
    assert [mark["note"] for mark in bookmarks_of(page.capture)] == [RUNS]


def test_nothing_captured_runs_in_any_pane(page: Page) -> None:
    page.filter('table == "shop.customer" and operation in ("REFRESH", "UPDATE")', "51 of 380 records")
    shown = set()
    for _ in range(6):
        for key in ("1", "2", "3", "4"):
            page.press(key)
            shown |= {text for text in (RUNS, LOADS) if any(text in one for one in page.all(".body *"))}
        page.press("1", "j")
    assert shown == {RUNS, LOADS}
    assert page.chrome.title != "owned"
    assert page.chrome.find_elements(By.CSS_SELECTOR, f"{PANES} img, {PANES} script") == []


def test_nothing_goes_wrong_and_nobody_else_is_asked(page: Page) -> None:
    own = urlsplit(page.url).netloc
    asked = requests(page.chrome)
    assert [url for url in asked if urlsplit(url).netloc != own] == []
    said = [
        line for line in errors(page.chrome) if "Starting application" not in line and "Starting WebSocket" not in line
    ]
    assert said == []


def test_nothing_is_wider_than_its_place(page: Page) -> None:
    page.filter('operation == "UPDATE"', "93 of 380 records")
    wide = page.chrome.execute_script(
        "const root = document.querySelector(arguments[0]); const box = root.getBoundingClientRect();"
        "return [...root.querySelectorAll('.bar > *, .line, .pane, .tabs, .status')]"
        ".filter(n => n.getBoundingClientRect().right > box.right + 1).map(n => n.className)",
        PANES,
    )
    assert wide == []


def test_the_space_of_the_list_the_fields_and_the_bytes_is_shared_by_dragging(page: Page) -> None:
    sizes = (
        f"return ['.records', '.pane'].map(one => document.querySelector(`{PANES} ${{one}}`).getBoundingClientRect())"
    )
    below, beside = page.chrome.find_elements(By.CSS_SELECTOR, f"{PANES} .split")
    page.chrome.execute_script("arguments[0].scrollIntoView({block: 'center'})", below)
    before = page.chrome.execute_script(sizes)
    ActionChains(page.chrome).drag_and_drop_by_offset(below, 0, -50).drag_and_drop_by_offset(beside, 80, 0).perform()
    after = page.chrome.execute_script(sizes)
    assert round(after[0]["height"] - before[0]["height"]) == -50
    assert round(after[1]["width"] - before[1]["width"]) == 80
    beside.send_keys(Keys.ARROW_LEFT * 4)
    below.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    last = page.chrome.execute_script(sizes)
    assert round(last[0]["height"] - before[0]["height"]) == -10
    assert round(last[1]["width"] - before[1]["width"]) == 0


def test_the_status_line_is_the_first(page: Page) -> None:
    first = page.chrome.find_element(By.CSS_SELECTOR, f"{PANES} > *")
    assert first.get_attribute("class") == "status"
