"""The page of plots: complete, plain and harmless."""

import html
import re
from html.parser import HTMLParser

from nethack_pipe.counterfactuals.page import page
from nethack_pipe.counterfactuals.preferences import preferences
from nethack_pipe.counterfactuals.summary import summary
from tests.helpers.branches import moment, table

HOSTILE = '<script>alert("x")</script><img src=x onerror=alert(1)> & \' {{ 7 * 7 }}'


def draw(made):
    figures = summary(made, preferences(made, 0.9), 0.9)
    return page({"train": made, "held_out": made}, {"train": figures, "held_out": figures})


class Tags(HTMLParser):
    """Counts tags, and checks that they are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def example(**columns):
    return table(
        moment(1, {"north": (5, 5.5), "wait": (3, 3)}, kind="combat", outcomes=[["a"], ["a", "b"]], **columns),
        moment(2, {"north": (9, 1), "wait": (3, 3)}, kind="combat", death_rate=[0.5, 0]),
        moment(3, {"north": (0, 0), "wait": (-1, 3)}, kind="descent", target="pos:(0,1) | hp:-2 | msg:Ouch"),
    )


def test_text_from_the_game_stays_text():
    message = f"seen:1\nmsg:{HOSTILE}\n"
    change = f"pos:(0,0) | hp:same | msg:{HOSTILE}"
    drawn = draw(example(state_text=message, target=change, map=HOSTILE, policy=HOSTILE, return_combat=[100.0, 0.0]))
    assert drawn.count(html.escape(HOSTILE).replace("&#x27;", "&#39;").replace("&quot;", "&#34;")) == 5
    assert "<script" not in drawn and "<img" not in drawn and "{{" in drawn
    assert {tag for tag, _ in Tags(drawn).seen} <= {
        *("html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "table", "tr", "th", "td", "pre"),
        *("div", "span", "figure", "figcaption", "svg", "line", "rect", "text"),
    }


def test_nothing_comes_from_elsewhere():
    drawn = draw(example())
    assert not re.search(r"https?:|//|\b(?:src|href)=|@import|url\(|\bon\w+=", drawn)


def test_the_page_shows_what_the_figures_say():
    drawn = draw(example())
    assert draw(example()) == drawn, "the same table gives the same bytes"
    # One example for each kind that there is; of the two fights the one where the choice makes the greater difference.
    titles = re.findall(r"<h3>(.*?)</h3>", drawn)
    assert titles == ["descent (task descend), game 8, step 3", "combat (task combat), game 8, step 1"]
    assert "<td>pos:(0,1) | hp:-2 | msg:Ouch</td>" in drawn and "<td>nothing</td>" in drawn
    assert "5.2 &plusmn; 0.2" in drawn  # the mean of 5 and 5.5, as Python rounds it
    bars = [attrs for tag, attrs in Tags(drawn).seen if tag == "rect" and attrs.get("x") == "110.0"]
    longest = max(float(bar["width"]) for bar in bars)
    assert longest == 640 - 110 - 60, "the most frequent kind fills the chart"


def test_an_empty_table_has_a_page():
    assert "There is none." in draw(table())
