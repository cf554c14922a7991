import { data, redirect } from "@remix-run/server-runtime";
import { expect, test } from "vitest";
import { hideData, revealIn } from "./shown-data.ts";

test("what is hidden is seen by nobody who goes through it, and revealed as it was", () => {
  const found = { secret: 1 };
  const hidden = hideData(found);
  expect(Object.entries(hidden as object)).toEqual([]);
  expect(JSON.stringify(hidden)).toBe("{}");
  const ofRoutes = { root: { theme: "dark" }, page: hidden, nothing: null };
  revealIn(ofRoutes);
  expect(ofRoutes).toEqual({ root: { theme: "dark" }, page: found, nothing: null });
  expect(ofRoutes.page).toBe(found);
});

test.each([redirect("/"), data({ a: 1 }, { status: 400 }), null, undefined, "text"])("%s stays", (found) => {
  expect(hideData(found)).toBe(found);
});
