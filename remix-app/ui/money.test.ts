import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { Usd } from "./money.tsx";

const shown = (props: Parameters<typeof Usd>[0]) => renderToStaticMarkup(createElement(Usd, props));

test("an unknown amount is a dash and not $0.00", () => {
  expect(shown({ amount: "0" })).toContain("$0.00");
  expect(shown({ amount: "0", isUnknown: true })).not.toContain("$");
  expect(shown({ amount: "0", isUnknown: true })).toContain('<span class="sr-only">unknown</span>');
  expect(shown({ amount: null, isUnknown: true })).toContain('<span class="sr-only">not shown</span>');
});
