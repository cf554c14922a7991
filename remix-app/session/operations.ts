import { z } from "zod";
import type { Operation } from "#shared/operation.ts";
import { activityPage } from "../activity/list-events.ts";
import { pageQuery } from "../http/list-page.ts";
import type { ProblemCode } from "../http/problem.ts";
import { sessionList } from "./account-sessions.ts";
import { directAdditions } from "./direct-additions.ts";
import { identityList } from "./sign-in-methods.ts";

/** The request to link an account at a provider. */
export const linkRequest = z.strictObject({ returnTo: z.string().max(2_048).optional() });
/** `state` is only for a phone, which sends it back to complete the link. */
const linkStart = z.object({ url: z.url(), state: z.string().optional() });
export type LinkStart = z.output<typeof linkStart>;

/**
 * The request that completes a link on a phone: the link's state, and the code that the identity backend sent to the
 * phone.
 */
export const linkCompletion = z.strictObject({ state: z.string().max(2_048), code: z.string().min(1).max(512) });

const operationTag = "Account security";

/** API operations about the signed-in user's sign-in methods, sessions and activity. */
export const identityOperations: readonly Operation<ProblemCode>[] = [
  {
    id: "listDirectAdditions",
    method: "GET",
    path: "/api/v1/users/me/additions",
    tag: operationTag,
    summary: "See what an app may add to the account",
    description:
      "An app that calls the identity backend directly may add an authenticator, a passkey or a provider only while the account has no verified authenticator. If it may not, open the url in the browser.",
    credentials: ["session", "bearer"],
    answers: [
      { status: 200, description: "Whether each may be added, and if not, why and where.", schema: directAdditions },
    ],
    problems: ["MFA_REQUIRED"],
  },
  {
    id: "listIdentities",
    method: "GET",
    path: "/api/v1/users/me/identities",
    tag: operationTag,
    summary: "List linked accounts",
    credentials: ["session", "bearer"],
    answers: [
      {
        status: 200,
        description: "The linked accounts at providers, and the account's own email.",
        schema: identityList,
      },
    ],
    problems: ["MFA_REQUIRED"],
  },
  {
    id: "linkIdentity",
    method: "POST",
    path: "/api/v1/users/me/identities/link/{provider}",
    tag: operationTag,
    summary: "Start linking an account at a provider",
    description:
      "Send the browser to the url in the response. A form can post the same fields and gets a 303. In a browser, returnTo is the page to return to, and the same browser must finish the link. On a phone, returnTo is the app's own URL that receives the code, which the identity backend's redirect list must allow. The app then finishes the link with the state from the response.",
    credentials: ["session", "bearer"],
    pathExamples: { provider: "github" },
    body: { schema: linkRequest, example: { returnTo: "/settings/security" }, optional: true },
    answers: [
      { status: 200, description: "The URL to open in the browser and, for a phone, the state.", schema: linkStart },
      {
        status: 303,
        description: "A redirect to the provider, for a form.",
        headers: { Location: "The provider's URL." },
      },
    ],
    problems: ["INVALID_REQUEST", "MFA_REQUIRED", "STEP_UP_REQUIRED", "NOT_FOUND", "RATE_LIMITED"],
  },
  {
    id: "completeLink",
    method: "POST",
    path: "/api/v1/users/me/identities/link/{provider}/complete",
    tag: operationTag,
    summary: "Finish linking from a phone",
    description:
      "Send the state from the call that started the link, and the code that the app's URL received. The state works once and expires after 10 minutes. Your app should reject a code that arrives when it has no link in progress.",
    credentials: ["bearer"],
    pathExamples: { provider: "github" },
    body: {
      schema: linkCompletion,
      example: {
        state: "q4mvXr0y7GZ0m3Z1l0o9Wb8Qv2m7Yd4JkX9tF5sN1cE.eyJhbGciOi…",
        code: "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
      },
    },
    answers: [{ status: 204, description: "The account is linked." }],
    problems: ["INVALID_REQUEST", "FORBIDDEN", "MFA_REQUIRED", "NOT_FOUND", "CONFLICT", "GONE"],
  },
  {
    id: "unlinkIdentity",
    method: "DELETE",
    path: "/api/v1/users/me/identities/{identityId}",
    tag: operationTag,
    summary: "Unlink an account at a provider",
    credentials: ["session", "bearer"],
    answers: [{ status: 204, description: "The account is unlinked." }],
    problems: ["MFA_REQUIRED", "STEP_UP_REQUIRED", "NOT_FOUND", "CONFLICT"],
  },
  {
    id: "listSessions",
    method: "GET",
    path: "/api/v1/users/me/sessions",
    tag: operationTag,
    summary: "List sessions",
    credentials: ["session", "bearer"],
    query: pageQuery,
    answers: [
      {
        status: 200,
        description: "A page of the account's sessions: the current one first, then the most recently active.",
        schema: sessionList,
      },
    ],
    problems: ["INVALID_REQUEST", "MFA_REQUIRED"],
  },
  {
    id: "endSession",
    method: "DELETE",
    path: "/api/v1/users/me/sessions/{sessionId}",
    tag: operationTag,
    summary: "Sign out a session",
    description: "Signing out any session other than the current one requires a recent identity confirmation.",
    credentials: ["session", "bearer"],
    answers: [{ status: 204, description: "The session is signed out." }],
    problems: ["MFA_REQUIRED", "STEP_UP_REQUIRED", "NOT_FOUND"],
  },
  {
    id: "listSecurityEvents",
    method: "GET",
    path: "/api/v1/users/me/security-events",
    tag: operationTag,
    summary: "List security events",
    credentials: ["session", "bearer"],
    query: pageQuery,
    answers: [{ status: 200, description: "A page of events, newest first.", schema: activityPage }],
    problems: ["INVALID_REQUEST", "MFA_REQUIRED"],
  },
];
