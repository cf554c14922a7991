import { expect, test } from "vitest";
import { accountSteps } from "./account-steps.ts";
import { appSteps } from "./app-steps.ts";
import type { RegisteredApp } from "./apps.ts";
import { approvalSteps } from "./key-approvals.ts";
import { createBlankModel } from "./model-setup/fields.ts";
import { modelSteps, type StepScope } from "./model-steps.ts";
import { clientSteps } from "./openid-client-steps.ts";
import type { RegisteredClient } from "./openid-clients.ts";
import { mfaPolicyChanges } from "./policy-step.ts";
import { overlapSeconds } from "./registry-steps.ts";
import { signUpChanges } from "./sign-up-mode.ts";

const scope: StepScope = {
  model: { ...createBlankModel(), id: "orbit-large" },
  price: null,
  providerId: "",
  minInputTokens: 0,
  grantee: { plan: null, workspace: null, name: "" },
};

const app = { scopes: ["profile", "ai:use"], origins: ["https://a.example", "https://b.example"] } as RegisteredApp;
const client = {
  scopes: ["profile"],
  redirectUris: ["https://a.example/in"],
  postLogoutRedirectUris: ["https://a.example/out"],
  allowsDeviceGrant: true,
  requiresPkce: false,
} as RegisteredClient;

/** Returns which steps of a table must be confirmed by typing. */
function typedSteps<Step extends { destroys?: unknown }>(
  steps: Record<string, Step>,
  destroys: (step: Step) => unknown = (step) => step.destroys,
): Record<string, boolean> {
  return Object.fromEntries(Object.entries(steps).map(([name, step]) => [name, Boolean(destroys(step))]));
}

test("only changes that delete something or stop something from working are confirmed by typing", () => {
  const registry = { edit: false, enable: false, disable: true, rotate: false };
  expect(typedSteps(appSteps, (step) => step.destroys?.(app, undefined))).toEqual({
    ...registry,
    link: false,
    unlink: true,
  });
  expect(typedSteps(clientSteps, (step) => step.destroys?.(client, undefined))).toEqual(registry);
  expect(typedSteps(approvalSteps)).toEqual({ approve: false, decline: false, withdraw: true });
  expect(typedSteps(accountSteps)).toEqual({ ban: true, unban: false, delete: true, keep: false, "sign-out": true });
  expect(typedSteps(signUpChanges)).toEqual({ open: true, invitation: false });
  expect(typedSteps(mfaPolicyChanges)).toEqual({ require: true, "make-optional": false, reset: true });
  expect(
    Object.fromEntries(Object.entries(modelSteps).map(([name, step]) => [name, step.confirmationOf(scope) !== null])),
  ).toEqual({
    disable: true,
    delete: true,
    grant: false,
    withdraw: true,
    price: false,
    "cancel-price": false,
  });
});

test.each([
  ["adds a scope and an origin", { scopeTtsUse: "on", origins: `${app.origins.join("\n")}\nhttps://c.example` }, false],
  ["reorders the origins", { origins: app.origins.toReversed().join("\r\n") }, false],
  ["removes a scope", { scopeAiUse: undefined }, true],
  ["replaces an origin", { origins: "https://a.example\nhttps://c.example" }, true],
])("an app's edit that %s is confirmed by typing: %3$j", (_, more, isTyped) => {
  const typed = { scopeProfile: "on", scopeAiUse: "on", origins: app.origins.join("\n"), ...more };
  expect(appSteps.edit.destroys?.(app, withoutUndefined(typed))).toBe(isTyped);
});

test.each([
  [
    "adds a scope and a redirect URI",
    { scopeWorkspacesRead: "on", redirectUris: "https://a.example/in https://b.example/" },
    false,
  ],
  ["removes a scope", { scopeProfile: undefined }, true],
  ["removes a redirect URI", { redirectUris: "https://b.example/" }, true],
  ["removes a post-logout redirect URI", { postLogoutRedirectUris: "" }, true],
  ["ends sign-in on devices", { allowsDeviceGrant: undefined }, true],
  ["requires PKCE", { requiresPkce: "yes" }, true],
])("a client's edit that %s is confirmed by typing: %3$j", (_, more, isTyped) => {
  const typed = {
    ...{ scopeProfile: "on", redirectUris: "https://a.example/in", postLogoutRedirectUris: "https://a.example/out" },
    ...{ allowsDeviceGrant: "on", requiresPkce: "no" },
    ...more,
  };
  expect(clientSteps.edit.destroys?.(client, withoutUndefined(typed))).toBe(isTyped);
});

/** Returns a form as it is sent, in which a box that isn't ticked is missing. */
function withoutUndefined(typed: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(typed).filter(([, value]) => value !== undefined));
}

test.each([
  ["0", 0, true],
  ["3600", 3600, false],
  ["86400", 86400, false],
  ["", undefined, false],
  ["0.0", undefined, false],
  ["1", undefined, false],
  ["3599", undefined, false],
  ["86401", undefined, false],
])("an overlap of %j seconds is read as %j, and confirmed by typing: %j", (typed, seconds, isTyped) => {
  expect(overlapSeconds.safeParse(typed).data).toBe(seconds);
  expect(appSteps.rotate.destroys?.(app, { overlapSeconds: typed })).toBe(isTyped);
  expect(clientSteps.rotate.destroys?.(client, { overlapSeconds: typed })).toBe(isTyped);
});
