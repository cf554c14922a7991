import { expect, test } from "vitest";
import { getInitial } from "./account-choices.tsx";

test.each([
  ["Ada", "A"],
  [" ada", "a"],
  ["Ñandú", "Ñ"],
  ["E\u0301mile", "E\u0301"],
  ["👩🏽‍🚀 Robin", "👩🏽‍🚀"],
  ["नेहा", "ने"],
  ["محمد", "م"],
  ["", "?"],
])("the initial of %s is %s", (name, initial) => {
  expect(getInitial(name)).toBe(initial);
});
