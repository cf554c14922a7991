import { expect, test } from "vitest";
import { createCookieJar } from "../http/cookies.ts";
import { leaveLinkResult, takeLinkResult } from "./link-result.ts";
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
const result = cookieLeft((context) => leaveLinkResult(context, { provider: "github" }));

test("what was done is said once", () => {
  const context = contextOf(`${notice}; ${result}`);
  expect(takeNotice(context, requestBy("GET"))).toEqual({ card: "sessions", done: "others" });
  expect(takeLinkResult(context, requestBy("GET"))?.text).toContain("GitHub account is linked");
  expect(context.jar.setCookieHeaders().map((cookie) => cookie.split(";").slice(0, 2).join())).toEqual([
    "gh_settings_notice=, Max-Age=0",
    "gh_link_result=, Max-Age=0",
  ]);
  expect(takeNotice(context, requestBy("GET"))).toBeNull();
  expect(takeLinkResult(context, requestBy("GET"))).toBeNull();
});

test("HEAD leaves it where it is, for the page that somebody sees", () => {
  const context = contextOf(`${notice}; ${result}`);
  takeNotice(context, requestBy("HEAD"));
  takeLinkResult(context, requestBy("HEAD"));
  expect(context.jar.setCookieHeaders()).toEqual([]);
});

test.each(["", "sessions", "sessions:<b>", "a:b:c"])("what we did not leave says nothing: %j", (value) => {
  expect(takeNotice(contextOf(`gh_settings_notice=${value}`), requestBy("GET"))).toBeNull();
});
