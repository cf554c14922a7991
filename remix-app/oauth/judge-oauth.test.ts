import { describe, expect, test } from "vitest";
import type { OAuthFlow } from "./attempts.ts";
import { decideVisit } from "./judge-oauth.ts";
import type { OAuthState } from "./state.ts";

const ada = { id: "6f1c1b52-6e64-4b0a-9a39-0c5f3b8f7f11", sessionId: "0b9dbb1c-5a0c-4f7e-8f0f-0f8b62a2d7aa" };
const bob = { id: "a51bb0a8-3a53-4a8b-9d0e-1f4ea2a1d5c2", sessionId: "c0ffee00-5a0c-4f7e-8f0f-0f8b62a2d7aa" };
const tenant = "https://login.microsoftonline.com/8a1f7f0e-0d5b-4d6c-9a40-2b6c7d8e9f01/v2.0";

const signIn: OAuthState = { purpose: "sign_in", provider: "google", returnTo: "/" };
const bound = { provider: "google", returnTo: "/", userId: ada.id, sessionId: ada.sessionId } as const;
const proof: OAuthState = { purpose: "reauthenticate", ...bound };
const link: OAuthState = { purpose: "link", ...bound };

const adasFlow: OAuthFlow = {
  userId: ada.id,
  email: "ada@example.com",
  closed: false,
  linkedTo: null,
  identity: { email: "ada@example.com", issuer: "https://accounts.google.com", confirmed: true, addedByApp: false },
};
const linkFlow: OAuthFlow = { ...adasFlow, linkedTo: ada.id, identity: { ...adasFlow.identity, confirmed: false } };
const microsoft = (issuer: string | null): OAuthFlow => ({ ...adasFlow, identity: { ...adasFlow.identity, issuer } });

const judge = (given: Partial<Parameters<typeof decideVisit>[0]>) =>
  decideVisit({ payload: signIn, flow: adasFlow, visitor: null, agreed: false, tenantIssuer: null, ...given });
const refused = (failure: string) => ({ verdict: "refuse", failure });

describe("the verdict on a provider sign-in", () => {
  test("accepts a sign-in if no account is signed in", () => {
    expect(judge({})).toEqual({ verdict: "sign_in" });
  });

  test("accepts a sign-in of the account that is already signed in", () => {
    expect(judge({ visitor: ada })).toEqual({ verdict: "sign_in" });
  });

  test("asks for confirmation before a sign-in if another account is signed in", () => {
    expect(judge({ visitor: bob })).toEqual({ verdict: "ask", email: "ada@example.com" });
    expect(judge({ visitor: bob, agreed: true })).toEqual({ verdict: "sign_in" });
  });

  test.each([
    ["its code is invalid", { flow: null }, "expired"],
    ["the account is closed", { flow: { ...adasFlow, closed: true } }, "closed"],
    ["its code belongs to a link", { flow: { ...adasFlow, linkedTo: ada.id } }, "expired"],
    [
      "its identity was added to the account without the owner's confirmation",
      { flow: { ...adasFlow, identity: { ...adasFlow.identity, confirmed: false } } },
      "unfinished_link",
    ],
    [
      "an app linked its identity and the owner has not confirmed it",
      { flow: { ...adasFlow, identity: { ...adasFlow.identity, confirmed: false, addedByApp: true } } },
      "unconfirmed_link",
    ],
  ])("refuses a sign-in if %s", (_, given, failure) => {
    expect(judge(given)).toEqual(refused(failure));
    expect(judge({ ...given, visitor: bob })).toEqual(refused(failure));
  });
});

describe("a proof of identity", () => {
  test("accepts a proof of identity from the signed-in account", () => {
    expect(judge({ payload: proof, visitor: ada })).toEqual({ verdict: "sign_in" });
  });

  test("refuses another account's sign-in as a proof of identity, even with consent", () => {
    const flow = { ...adasFlow, userId: bob.id };
    expect(judge({ payload: proof, visitor: ada, flow, agreed: true })).toEqual(refused("other_account"));
  });
});

describe.each([
  ["a fresh proof", proof, adasFlow],
  ["a link", link, linkFlow],
])("completing %s without the session that started it", (_, payload, flow) => {
  test.each([
    ["no account is signed in", null],
    ["another account is signed in", bob],
    ["another session of the account is signed in", { ...ada, sessionId: bob.sessionId }],
  ])("does not accept a proof of identity or link a provider account if %s", (_reason, visitor) => {
    expect(judge({ payload, flow, visitor, agreed: true })).toEqual(refused("expired"));
  });
});

describe("a link to a provider's account", () => {
  test("accepts linking for the account and session that started it", () => {
    expect(judge({ payload: link, visitor: ada, flow: linkFlow })).toEqual({ verdict: "link" });
  });

  test.each([
    ["a sign-in's code", adasFlow],
    ["a link to another account", { ...linkFlow, linkedTo: bob.id, userId: bob.id }],
    ["a link that ended at another account", { ...linkFlow, userId: bob.id }],
  ])("refuses to complete linking with %s", (_, flow) => {
    expect(judge({ payload: link, visitor: ada, flow })).toEqual(refused("expired"));
  });
});

describe("Microsoft accounts", () => {
  const payload: OAuthState = { ...signIn, provider: "azure" };

  test("accepts a Microsoft account from our tenant", () => {
    expect(judge({ payload, flow: microsoft(tenant), tenantIssuer: tenant })).toEqual({ verdict: "sign_in" });
  });

  test.each([
    ["another tenant's issuer", "https://login.microsoftonline.com/00000000-0d5b-4d6c-9a40-2b6c7d8e9f01/v2.0"],
    ["the issuer of personal accounts", "https://login.microsoftonline.com/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0"],
    ["an issuer that begins with our tenant's", `${tenant}/evil`],
    ["no issuer", null],
  ])("refuses a Microsoft account with %s", (_, issuer) => {
    expect(judge({ payload, flow: microsoft(issuer), tenantIssuer: tenant })).toEqual(refused("tenant"));
    const linking = { payload: { ...link, provider: "azure" } as OAuthState, visitor: ada, tenantIssuer: tenant };
    expect(judge({ ...linking, flow: { ...microsoft(issuer), linkedTo: ada.id } })).toEqual(refused("tenant"));
  });

  test("refuses every Microsoft account while our tenant's issuer is unknown", () => {
    expect(judge({ payload, flow: microsoft(tenant), tenantIssuer: null })).toEqual(refused("unavailable"));
  });
});
