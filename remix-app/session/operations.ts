import { z } from "zod";
import type { Operation } from "#shared/operation.ts";
import { activityPage } from "../activity/list-events.ts";
import { pageQuery } from "../http/list-page.ts";
import type { ProblemCode } from "../http/problem.ts";
import { sessionList } from "./account-sessions.ts";
import { identityList } from "./sign-in-methods.ts";

/** What linking an account at a provider takes and answers. */
export const linkRequest = z.strictObject({ returnTo: z.string().max(2_048).optional() });
/** `state` is for the phone that began the link, which finishes it by the same state. */
const linkBegun = z.object({ url: z.url(), state: z.string().optional() });
export type LinkBegun = z.output<typeof linkBegun>;

/** How a phone finishes a link: with its state, and the code that the identity backend sent it. */
export const linkCompletion = z.strictObject({ state: z.string().max(2_048), code: z.string().min(1).max(512) });

const tag = "Account security";

/** Calls about the signed-in user's own ways in, sessions and activity. */
export const identityOperations: readonly Operation<ProblemCode>[] = [
  {
    id: "listIdentities",
    method: "GET",
    path: "/api/v1/users/me/identities",
    tag,
    summary: "List linked accounts",
    credentials: ["session", "bearer"],
    answers: [
      { status: 200, description: "The accounts at providers, the email itself among them.", schema: identityList },
    ],
    problems: ["MFA_REQUIRED"],
  },
  {
    id: "linkIdentity",
    method: "POST",
    path: "/api/v1/users/me/identities/link/{provider}",
    tag,
    summary: "Begin to link an account at a provider",
    description:
      "Send the browser to the answer's address. A form may post the same; it is answered with 303. In a browser, returnTo is the page to come back to, and the same browser finishes the link. From a phone, returnTo is the app's own address for the code, which the identity backend's redirect list must allow; the app finishes the link with the answer's state.",
    credentials: ["session", "bearer"],
    pathExamples: { provider: "github" },
    body: { schema: linkRequest, example: { returnTo: "/settings/security" }, optional: true },
    answers: [
      { status: 200, description: "Where the browser has to go; for a phone with the state.", schema: linkBegun },
      { status: 303, description: "The same, for a form.", headers: { Location: "Where the browser has to go." } },
    ],
    problems: ["INVALID_REQUEST", "MFA_REQUIRED", "STEP_UP_REQUIRED", "NOT_FOUND", "RATE_LIMITED"],
  },
  {
    id: "completeLink",
    method: "POST",
    path: "/api/v1/users/me/identities/link/{provider}/complete",
    tag,
    summary: "Finish a link that a phone began",
    description:
      "With the state of the call that began it, and the code that the app's address got. It counts once, for ten minutes. Refuse a code that comes while no link of yours is open.",
    credentials: ["bearer"],
    pathExamples: { provider: "github" },
    body: {
      schema: linkCompletion,
      example: {
        state: "q4mvXr0y7GZ0m3Z1l0o9Wb8Qv2m7Yd4JkX9tF5sN1cE.eyJhbGciOi…",
        code: "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
      },
    },
    answers: [{ status: 204, description: "Linked." }],
    problems: ["INVALID_REQUEST", "FORBIDDEN", "MFA_REQUIRED", "NOT_FOUND", "CONFLICT", "GONE"],
  },
  {
    id: "unlinkIdentity",
    method: "DELETE",
    path: "/api/v1/users/me/identities/{identityId}",
    tag,
    summary: "Unlink an account at a provider",
    credentials: ["session", "bearer"],
    answers: [{ status: 204, description: "Unlinked." }],
    problems: ["MFA_REQUIRED", "STEP_UP_REQUIRED", "NOT_FOUND", "CONFLICT"],
  },
  {
    id: "listSessions",
    method: "GET",
    path: "/api/v1/users/me/sessions",
    tag,
    summary: "List where the account is signed in",
    credentials: ["session", "bearer"],
    query: pageQuery,
    answers: [
      {
        status: 200,
        description: "A page of its sessions, the one that asks first, then those seen last.",
        schema: sessionList,
      },
    ],
    problems: ["INVALID_REQUEST", "MFA_REQUIRED"],
  },
  {
    id: "endSession",
    method: "DELETE",
    path: "/api/v1/users/me/sessions/{sessionId}",
    tag,
    summary: "Sign out somewhere",
    description: "Elsewhere than here it takes a recent proof of who you are.",
    credentials: ["session", "bearer"],
    answers: [{ status: 204, description: "That session has ended." }],
    problems: ["MFA_REQUIRED", "STEP_UP_REQUIRED", "NOT_FOUND"],
  },
  {
    id: "listSecurityEvents",
    method: "GET",
    path: "/api/v1/users/me/security-events",
    tag,
    summary: "List what happened to the account",
    credentials: ["session", "bearer"],
    query: pageQuery,
    answers: [{ status: 200, description: "A page of events, the newest first.", schema: activityPage }],
    problems: ["INVALID_REQUEST", "MFA_REQUIRED"],
  },
];
