import { globSync } from "node:fs";
import { expect, test } from "vitest";
import routes from "../../remix-app/routes.ts";
import { leftOut, states } from "./states.ts";

const pages = new Set(routes.map(({ file }) => file).filter((file) => file.endsWith(".tsx")));
// The satellite has pages of its own.
const shown = new Set(states.filter(({ area }) => area !== "Emails" && area !== "Satellite").map(({ route }) => route));

test("each page is in the gallery, or has a reason why not", () => {
  expect([...pages].filter((page) => !shown.has(page) && !leftOut[page])).toEqual([]);
});

test("the gallery knows no page that is not there, and gives no reason for one that it shows", () => {
  expect([...shown, ...Object.keys(leftOut)].filter((page) => !pages.has(page))).toEqual([]);
  expect(Object.keys(leftOut).filter((page) => shown.has(page))).toEqual([]);
});

test("each email is in the gallery, with the file that has its words", () => {
  const files = globSync(["supabase/templates/*.html", "remix-app/**/*-mail.ts"]);
  const emails = new Set(states.filter(({ area }) => area === "Emails").map(({ route }) => route));
  // It sends what others have written.
  expect([...emails].sort()).toEqual(files.filter((file) => file !== "remix-app/mail/send-mail.ts").sort());
});

test("each state has a name of its own", () => {
  expect(new Set(states.map(({ area, name }) => `${area} ${name}`)).size).toBe(states.length);
});
