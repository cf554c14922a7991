import { globSync } from "node:fs";
import { expect, test } from "vitest";
import { urlRoutes } from "../test/routes.ts";
import { leftOut, states } from "./states.ts";

const pages = new Set(urlRoutes.map(({ file }) => file).filter((file) => file.endsWith(".tsx")));
// Satellite routes are not in routes.ts.
const shown = new Set(states.filter(({ area }) => area !== "Emails" && area !== "Satellite").map(({ route }) => route));

test("every page is in the gallery or has a reason for its absence", () => {
  expect([...pages].filter((page) => !shown.has(page) && !leftOut[page])).toEqual([]);
});

test("the gallery and its list of omitted pages name only existing pages, and no page is in both", () => {
  expect([...shown, ...Object.keys(leftOut)].filter((page) => !pages.has(page))).toEqual([]);
  expect(Object.keys(leftOut).filter((page) => shown.has(page))).toEqual([]);
});

test("every email is in the gallery with the file that contains its text", () => {
  const files = globSync(["supabase/templates/*.html", "remix-app/**/*-mail.ts"]);
  const emails = new Set(states.filter(({ area }) => area === "Emails").map(({ route }) => route));
  // This module only sends the emails that other modules write.
  expect([...emails].sort()).toEqual(files.filter((file) => file !== "remix-app/mail/send-mail.ts").sort());
});

test("every state in the gallery has a unique name", () => {
  expect(new Set(states.map(({ area, name }) => `${area} ${name}`)).size).toBe(states.length);
});
