import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { ColumnChart, StackedColumnChart } from "./column-chart.tsx";

const frame = { label: "Spend by day", formatMark: String };
const column = (label: string, isInProgress = false) => ({ label, href: `/runs?from=${label}`, isInProgress });

test("each column links to its day, and its tooltip has the day's figures", () => {
  const columns = [
    { ...column("1 Mar"), value: 3, text: "$3.00", previous: { label: "1 Feb", value: 2, text: "$2.00" } },
  ];
  const html = renderToStaticMarkup(createElement(ColumnChart, { ...frame, columns }));
  expect(html).toContain(
    '<a href="/runs?from=1 Mar"><span class="tip"><b>1 Mar</b><span>$3.00</span><span>1 Feb: $2.00</span></span></a>',
  );
  expect(html).not.toMatch(/pattern|in progress|Skip/);
});

test("the column in progress is hatched and says so", () => {
  const columns = [
    { ...column("1 Mar"), value: 4, text: "$4.00" },
    { ...column("2 Mar", true), value: 2, text: "$2.00" },
  ];
  const html = renderToStaticMarkup(createElement(ColumnChart, { ...frame, columns }));
  expect(html).toContain("<b>2 Mar, still in progress</b>");
  expect(html.match(/<rect [^>]*fill="url\(#chart-hatching\)"/g)).toHaveLength(1);
  expect(html).toMatch(/<rect x="60%" width="30%" y="50%" height="50%"/);
});

test("a stacked column links to its day and each of its parts, without parts of zero", () => {
  const parts = [
    { value: 2, text: "$2.00", href: "/runs?model=large" },
    { value: 0, text: "$0.00", href: "/runs?model=small" },
    { value: 1, text: "$1.00" },
  ];
  const html = renderToStaticMarkup(
    createElement(StackedColumnChart, {
      ...frame,
      series: ["large", "small", "Other models"],
      columns: [{ ...column("1 Mar"), parts }],
    }),
  );
  const [tip = ""] = /<div class="tip">.*?<\/div>/.exec(html) ?? [];
  expect(html).toContain('<a href="/runs?from=1 Mar">');
  expect(tip).toBe(
    '<div class="tip"><b>1 Mar</b><a href="/runs?model=large">large $2.00</a><span>Other models $1.00</span></div>',
  );
});

test("keyboards can skip a chart of many columns", () => {
  const columns = Array.from({ length: 15 }, (_, day) => ({ ...column(`${day} Mar`), value: 1, text: "1" }));
  const html = renderToStaticMarkup(createElement(ColumnChart, { ...frame, columns }));
  const [, end] = /<a href="#([^"]+)"[^>]*>Skip/.exec(html) ?? [];
  expect(html).toContain(`id="${end}"`);
});
