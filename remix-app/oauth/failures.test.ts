import { describe, expect, test } from "vitest";
import { isRefusedAccount, parseBackendFailure, parseFailure, readFailureText } from "./failures.ts";

const settings = {
  OAUTH_PROVIDERS: ["google"] as const,
  OAUTH_FORM_TARGETS: [],
  SUPABASE_URL: "https://ref.supabase.co",
};

describe("the identity backend's redirect to us", () => {
  test.each([
    ["error=access_denied&error_description=The+user+said+no", "cancelled"],
    ["error=user_cancelled_authorize", "cancelled"],
    ["error=access_denied&error_code=user_banned&error_description=User+is+banned", "closed"],
    ["error=access_denied&error_code=signup_disabled", "sign_up_closed"],
    ["error=access_denied&error_code=provider_email_needs_verification", "unverified"],
    ["error=server_error&error_code=identity_already_exists", "already_linked"],
    ["error=server_error&error_code=unexpected_failure&error_description=pq:+secret", "failed"],
    ["error=invalid_request&error_code=bad_oauth_state", "expired"],
    ["error=server_error", "failed"],
    ["", "failed"],
  ])("reads a redirect with %s as %s", (query, failure) => {
    expect(parseBackendFailure(new URLSearchParams(query))).toBe(failure);
  });
});

test.each([
  ["error_code=unexpected_failure&error_description=Database+error+saving+new+user", true],
  ["error_code=unexpected_failure&error_description=Unexpected+failure", false],
  ["error_code=user_banned&error_description=Database+error+saving+new+user", false],
  ["", false],
])("recognizes that no account could be created from a redirect with %s: %s", (query, isRefused) => {
  expect(isRefusedAccount(new URLSearchParams(query))).toBe(isRefused);
});

describe("the failure in the sign-in page's URL", () => {
  const readText = (query: string) => readFailureText(new URLSearchParams(query), settings);

  test("shows a failure in our own words", () => {
    expect(readText("oauth=unverified&provider=google")).toMatch(/^Google hasn’t verified/);
  });

  test.each([
    "",
    "oauth=unverified",
    "oauth=unverified&provider=github",
    "oauth=unverified&provider=Call+us+at+555-0100",
    "oauth=You+have+been+hacked&provider=google",
    "oauth=toString&provider=google",
    "oauth=constructor&provider=google",
  ])("shows no failure if the URL's failure code or provider is missing or unknown: %s", (query) => {
    expect(readText(query)).toBeNull();
  });

  test("parses only known failure codes", () => {
    expect(parseFailure("tenant")).toBe("tenant");
    expect(parseFailure("__proto__")).toBeNull();
    expect(parseFailure(null)).toBeNull();
  });
});
