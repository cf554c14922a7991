import { expect, test } from "vitest";
import { createCookieJar } from "../http/cookies.ts";
import { linkNotice, linkNoticeText } from "./linked-accounts.ts";
import { leaveNotice, takeNotice } from "./settings-notice.ts";

const origin = "https://app.example.com";
const contextOf = (cookie: string | null) => ({ jar: createCookieJar(cookie), origin });
const requestBy = (method: string) => new Request(new URL("/settings/security", origin), { method });

function cookieLeft(leave: (context: ReturnType<typeof contextOf>) => void): string {
  const context = contextOf(null);
  leave(context);
  return context.jar.setCookieHeaders()[0]?.split(";")[0] ?? "";
}

const notice = cookieLeft((context) => leaveNotice(context, { card: "sessions", done: "others" }));

test("a settings notice is shown once", () => {
  const context = contextOf(notice);
  expect(takeNotice(context, requestBy("GET"))).toEqual({ card: "sessions", done: "others" });
  expect(context.jar.setCookieHeaders().map((cookie) => cookie.split(";").slice(0, 2).join())).toEqual([
    "gh_settings_notice=, Max-Age=0",
  ]);
  expect(takeNotice(context, requestBy("GET"))).toBeNull();
});

test("a HEAD request keeps the settings notice, so that the page shown next has it", () => {
  const context = contextOf(notice);
  takeNotice(context, requestBy("HEAD"));
  expect(context.jar.setCookieHeaders()).toEqual([]);
});

test.each([
  ["linked", "good", "GitHub account is linked"],
  ["unlinked", "good", "GitHub account is unlinked"],
  ["already_linked", "warn", "already linked"],
] as const)("the linked-accounts card describes the result of linking or unlinking: %s", (outcome, tone, text) => {
  const left = cookieLeft((context) => leaveNotice(context, linkNotice("github", outcome)));
  const taken = takeNotice(contextOf(left), requestBy("GET"));
  expect(linkNoticeText(taken)).toEqual({ tone, text: expect.stringContaining(text) });
});

test("the linked-accounts card ignores other cards' notices", () => {
  expect(linkNoticeText({ card: "sessions", done: "github.linked" })).toBeNull();
  expect(linkNoticeText({ card: "linked-accounts", done: "github.nonsense" })).toBeNull();
  expect(linkNoticeText(null)).toBeNull();
});

test.each(["", "sessions", "sessions:<b>", "a:b:c"])(
  "a settings notice that we did not write is ignored: %j",
  (value) => {
    expect(takeNotice(contextOf(`gh_settings_notice=${value}`), requestBy("GET"))).toBeNull();
  },
);
