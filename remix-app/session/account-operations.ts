import { z } from "zod";
import type { Operation } from "#shared/operation.ts";
import type { ProblemCode } from "../http/problem.ts";
import { accountSchema } from "./vault.ts";

/** Requests and responses of the calls about a browser's accounts. */
export const accountList = z.object({
  activeAccountId: z.uuid().nullable(),
  /** The most recently active one first. */
  accounts: z.array(accountSchema).readonly(),
});
export type AccountList = z.output<typeof accountList>;

export const switchRequest = z.strictObject({
  accountId: z.uuid(),
  targetRoute: z.string().optional(),
  currentRoute: z.string().optional(),
});
export const switchResponse = z.object({ accountId: z.uuid(), redirectTo: z.string() });
export type SwitchResponse = z.output<typeof switchResponse>;

export const currentRouteRequest = z.strictObject({ route: z.string() });

export const signOutResponse = z.object({ activeAccountId: z.uuid().nullable(), redirectTo: z.string() });
export type SignOutResponse = z.output<typeof signOutResponse>;

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

const operationTag = "Session and accounts";
const exampleAccountId = "7c9e6679-7425-40de-944b-e07fc1f90ae7";

/** API operations about a session and about the accounts of a browser. */
export const accountOperations: readonly Operation<ProblemCode>[] = [
  {
    id: "getSession",
    method: "GET",
    path: "/api/v1/auth/session",
    tag: operationTag,
    summary: "Get the current session",
    description:
      "Also returns a session whose second factor is still pending. Use it for display only: every request is authorized separately.",
    credentials: ["session", "bearer"],
    answers: [
      { status: 200, description: "The user, and the authentication level of the session.", schema: sessionAnswer },
    ],
    problems: [],
  },
  {
    id: "listAccounts",
    method: "GET",
    path: "/api/v1/auth/accounts",
    tag: operationTag,
    summary: "List the accounts in this browser",
    description:
      "The most recently active account comes first. With a bearer token, the list has only that token's account.",
    credentials: ["session", "bearer"],
    answers: [{ status: 200, description: "The accounts, and the ID of the active one.", schema: accountList }],
    problems: [],
  },
  {
    id: "switchAccount",
    method: "POST",
    path: "/api/v1/auth/accounts/switch",
    tag: operationTag,
    summary: "Switch to another account in this browser",
    description:
      "A 401 REAUTH_REQUIRED means that the account's stored session is no longer valid and was removed. List the accounts again and ask the user to sign in.",
    credentials: ["session"],
    body: { schema: switchRequest, example: { accountId: exampleAccountId, targetRoute: "/workspaces" } },
    answers: [
      {
        status: 200,
        description: "The account is now active. Redirect the browser to redirectTo.",
        schema: switchResponse,
      },
    ],
    problems: ["INVALID_REQUEST", "REAUTH_REQUIRED", "NOT_FOUND"],
  },
  {
    id: "noteCurrentRoute",
    method: "PATCH",
    path: "/api/v1/auth/accounts/current",
    tag: operationTag,
    summary: "Save the page to open when switching back to this account",
    description: "The next switch to this account opens that page. Sign-in and sign-out pages are refused.",
    credentials: ["session"],
    body: { schema: currentRouteRequest, example: { route: "/workspaces" } },
    answers: [{ status: 204, description: "The page is saved." }],
    problems: ["INVALID_REQUEST"],
  },
  {
    id: "signOutAccount",
    method: "DELETE",
    path: "/api/v1/auth/accounts/{accountId}",
    tag: operationTag,
    summary: "Sign out of one account in this browser",
    credentials: ["session"],
    answers: [
      {
        status: 200,
        description: "The account is signed out. The response names the account that is active now.",
        schema: signOutResponse,
      },
    ],
    problems: ["NOT_FOUND"],
  },
  {
    id: "signOutActiveAccount",
    method: "POST",
    path: "/api/v1/auth/accounts/logout",
    tag: operationTag,
    summary: "Sign out of the active account",
    description: "The most recently used other account becomes active, if there is one.",
    credentials: ["session", "bearer"],
    answers: [
      {
        status: 200,
        description: "The account is signed out. The response names the account that is active now.",
        schema: signOutResponse,
      },
    ],
    problems: ["NOT_FOUND"],
  },
  {
    id: "signOutAllAccounts",
    method: "POST",
    path: "/api/v1/auth/accounts/logout-all",
    tag: operationTag,
    summary: "Sign out of all accounts in this browser",
    credentials: ["session", "bearer"],
    answers: [{ status: 200, description: "All accounts in this browser are signed out.", schema: signOutResponse }],
    problems: [],
  },
  {
    id: "signOutEverywhere",
    method: "POST",
    path: "/api/v1/auth/accounts/logout-everywhere",
    tag: operationTag,
    summary: "Sign the active account out everywhere",
    description:
      "Ends every session of the account on every device, including this one, and revokes its app sessions and app tokens. Requires a recent identity confirmation.",
    credentials: ["session", "bearer"],
    answers: [{ status: 200, description: "The account is signed out everywhere.", schema: signOutResponse }],
    problems: ["MFA_REQUIRED", "STEP_UP_REQUIRED"],
  },
];
