import { z } from "zod";
import type { Operation } from "#shared/operation.ts";
import { activityPage } from "../activity/list-events.ts";
import { pageQuery } from "../http/list-page.ts";
import type { ProblemCode } from "../http/problem.ts";
import { sessionList } from "./account-sessions.ts";
import { identityList } from "./sign-in-methods.ts";

/** What linking an account at a provider takes and answers. */
export const linkRequest = z.object({ returnTo: z.string().max(2_048).optional() });
export const linkBegun = z.object({ url: z.url() });
export type LinkBegun = z.output<typeof linkBegun>;

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
      "Send the browser to the answer's address. A form may post the same; it is answered with 303. A link begins and ends in one browser, so that a bearer begins none.",
    credentials: ["session"],
    pathExamples: { provider: "github" },
    body: { schema: linkRequest, example: { returnTo: "/settings/security" } },
    answers: [
      { status: 200, description: "Where the browser has to go.", schema: linkBegun },
      { status: 303, description: "The same, for a form.", headers: { Location: "Where the browser has to go." } },
    ],
    problems: ["INVALID_REQUEST", "FORBIDDEN", "MFA_REQUIRED", "STEP_UP_REQUIRED", "NOT_FOUND", "RATE_LIMITED"],
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
    answers: [{ status: 200, description: "Its sessions, the one that asks first.", schema: sessionList }],
    problems: ["MFA_REQUIRED"],
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
