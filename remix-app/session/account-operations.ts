import { z } from "zod";
import type { Operation } from "#shared/operation.ts";
import type { ProblemCode } from "../http/problem.ts";
import { account } from "./vault.ts";

/** What calls about a browser's accounts take and answer. */
export const accountList = z.object({
  activeAccountId: z.uuid().nullable(),
  /** The one that was active last first. */
  accounts: z.array(account).readonly(),
});
export type AccountList = z.output<typeof accountList>;

export const switchRequest = z.strictObject({
  accountId: z.uuid(),
  targetRoute: z.string().optional(),
  currentRoute: z.string().optional(),
});
export const switched = z.object({ accountId: z.uuid(), redirectTo: z.string() });
export type Switched = z.output<typeof switched>;

export const currentRouteRequest = z.strictObject({ route: z.string() });

export const signedOut = z.object({ activeAccountId: z.uuid().nullable(), redirectTo: z.string() });
export type SignedOutAnswer = z.output<typeof signedOut>;

/** Who is signed in. */
export const sessionAnswer = z.object({
  user: z.object({
    id: z.uuid(),
    email: z.string(),
    displayName: z.string().nullable(),
    avatarUrl: z.string().nullable(),
  }),
  sessionId: z.uuid(),
  aal: z.enum(["aal1", "aal2", "aal3"]),
  mfa: z.object({ required: z.boolean(), satisfied: z.boolean() }),
  activeAccountId: z.uuid(),
});
export type SessionAnswer = z.output<typeof sessionAnswer>;

const tag = "Session and accounts";
const accountId = "7c9e6679-7425-40de-944b-e07fc1f90ae7";

/** Calls about a session, and about the accounts of a browser. */
export const accountOperations: readonly Operation<ProblemCode>[] = [
  {
    id: "getSession",
    method: "GET",
    path: "/api/v1/auth/session",
    tag,
    summary: "Tell who is signed in",
    description: "Answers where a second step is still due, too. It is for show: every call is authorised by itself.",
    credentials: ["session", "bearer"],
    answers: [{ status: 200, description: "Who it is, and what the session has proved.", schema: sessionAnswer }],
    problems: [],
  },
  {
    id: "listAccounts",
    method: "GET",
    path: "/api/v1/auth/accounts",
    tag,
    summary: "List the accounts of this browser",
    description: "The one that was active last comes first. A bearer has no browser: it is told of its own account.",
    credentials: ["session", "bearer"],
    answers: [{ status: 200, description: "The accounts, and which of them is active.", schema: accountList }],
    problems: [],
  },
  {
    id: "switchAccount",
    method: "POST",
    path: "/api/v1/auth/accounts/switch",
    tag,
    summary: "Switch to another account of this browser",
    description:
      "On 401 REAUTH_REQUIRED the account's stored session was refused and its entry is gone: read the list again and ask for a sign-in.",
    credentials: ["session"],
    body: { schema: switchRequest, example: { accountId, targetRoute: "/workspaces" } },
    answers: [{ status: 200, description: "It is active now; go there.", schema: switched }],
    problems: ["INVALID_REQUEST", "REAUTH_REQUIRED", "NOT_FOUND"],
  },
  {
    id: "noteCurrentRoute",
    method: "PATCH",
    path: "/api/v1/auth/accounts/current",
    tag,
    summary: "Note where the active account is",
    description: "The next switch to it leads there. Pages of signing in and out are refused.",
    credentials: ["session"],
    body: { schema: currentRouteRequest, example: { route: "/workspaces" } },
    answers: [{ status: 204, description: "Noted." }],
    problems: ["INVALID_REQUEST"],
  },
  {
    id: "signOutAccount",
    method: "DELETE",
    path: "/api/v1/auth/accounts/{accountId}",
    tag,
    summary: "Sign out of one account of this browser",
    credentials: ["session"],
    answers: [{ status: 200, description: "Its session has ended; who is active now.", schema: signedOut }],
    problems: ["NOT_FOUND"],
  },
  {
    id: "signOutActiveAccount",
    method: "POST",
    path: "/api/v1/auth/accounts/logout",
    tag,
    summary: "Sign out of the active account",
    description: "The account used last takes over, where there is one.",
    credentials: ["session", "bearer"],
    answers: [{ status: 200, description: "Its session has ended; who is active now.", schema: signedOut }],
    problems: ["NOT_FOUND"],
  },
  {
    id: "signOutAllAccounts",
    method: "POST",
    path: "/api/v1/auth/accounts/logout-all",
    tag,
    summary: "Sign out of all accounts of this browser",
    credentials: ["session", "bearer"],
    answers: [{ status: 200, description: "All their sessions have ended.", schema: signedOut }],
    problems: [],
  },
  {
    id: "signOutEverywhere",
    method: "POST",
    path: "/api/v1/auth/accounts/logout-everywhere",
    tag,
    summary: "Sign the active account out everywhere",
    description:
      "Ends every session of the account on every device, this one included, and revokes its app sessions and app tokens. It needs a recent proof of identity.",
    credentials: ["session", "bearer"],
    answers: [{ status: 200, description: "The account is signed out everywhere.", schema: signedOut }],
    problems: ["MFA_REQUIRED", "STEP_UP_REQUIRED"],
  },
];
