import type { Operation } from "#shared/operation.ts";
import type { ProblemCode } from "../http/problem.ts";
import {
  exchangeRequest,
  introspection,
  issuedAppToken,
  issuedSession,
  mintRequest,
  revokedTokens,
  sessionTokenRequest,
  validated,
  validateRequest,
  verified,
  verifyRequest,
} from "./app-calls.ts";

const tag = "Apps and handoff";
const token = "xat_4bqO2X0y7GZ0m3Z1l0o9Wb8Qv2m7Yd4JkX9tF5sN1cE";
const sessionToken = "eyJ0eXAiOiJhcHAtc2Vzc2lvbitqd3QiLCJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl";
const workspaceId = "0b1e7a52-3c1d-4b7a-9d57-2f8f0a6c9e11";

/** Calls by which a person is handed over to an app, and those of the app's server. */
export const appOperations: readonly Operation<ProblemCode>[] = [
  {
    id: "mintCrossAppToken",
    method: "POST",
    path: "/api/v1/auth/cross-app-tokens",
    tag,
    summary: "Mint a token that hands the user over to an app",
    credentials: ["session", "bearer"],
    body: { schema: mintRequest, example: { targetApp: "notes", expirySeconds: 120 } },
    answers: [{ status: 201, description: "The token, good once.", schema: issuedSession }],
    problems: ["INVALID_REQUEST", "MFA_REQUIRED", "NOT_FOUND", "RATE_LIMITED"],
  },
  {
    id: "revokeCrossAppTokens",
    method: "DELETE",
    path: "/api/v1/auth/cross-app-tokens",
    tag,
    summary: "Revoke all outstanding cross-app tokens",
    credentials: ["session", "bearer"],
    answers: [{ status: 200, description: "How many there were.", schema: revokedTokens }],
    problems: ["MFA_REQUIRED"],
  },
  {
    id: "validateCrossAppToken",
    method: "POST",
    path: "/api/v1/auth/cross-app-tokens/validate",
    tag,
    summary: "Redeem a cross-app token",
    description:
      "For the server of the app that it was minted for. A token that leads nowhere is answered with null. A preview redeems nothing.",
    credentials: ["app"],
    body: { schema: validateRequest, example: { token } },
    answers: [{ status: 200, description: "What it opens, whom it would sign in, or null.", schema: validated }],
    problems: ["INVALID_REQUEST", "RATE_LIMITED"],
  },
  {
    id: "introspectAppSession",
    method: "POST",
    path: "/api/v1/auth/app-sessions/introspect",
    tag,
    summary: "Tell what an app session is worth now",
    description: "In the shape of RFC 7662. An app may keep the answer for 60 seconds.",
    credentials: ["app"],
    body: { schema: sessionTokenRequest, example: { token: sessionToken } },
    answers: [{ status: 200, description: "Whether it is active, and whose it is.", schema: introspection }],
    problems: ["INVALID_REQUEST", "RATE_LIMITED"],
  },
  {
    id: "refreshAppSession",
    method: "POST",
    path: "/api/v1/auth/app-sessions/refresh",
    tag,
    summary: "Put a new token in an app session's place",
    description: "The old one dies 30 seconds later; until then it leads to the same new one.",
    credentials: ["app"],
    body: { schema: sessionTokenRequest, example: { token: sessionToken } },
    answers: [{ status: 200, description: "The new token.", schema: issuedSession }],
    problems: ["INVALID_REQUEST", "REAUTH_REQUIRED", "RATE_LIMITED"],
  },
  {
    id: "revokeAppSession",
    method: "POST",
    path: "/api/v1/auth/app-sessions/revoke",
    tag,
    summary: "End an app session, or a token for the AI gateway",
    description:
      "A session's sibling of the same handoff ends with it; a ttr_app_ token's, or its refresh token's, whole chain. A token that is none is no error.",
    credentials: ["app"],
    body: { schema: sessionTokenRequest, example: { token: sessionToken } },
    answers: [{ status: 204, description: "It has ended." }],
    problems: ["INVALID_REQUEST", "RATE_LIMITED"],
  },
  {
    id: "exchangeAppToken",
    method: "POST",
    path: "/api/v1/auth/app-token/exchange",
    tag,
    summary: "Get an access token for the AI gateway",
    description:
      "For registered external apps: by a cross-app token, or by the refresh token of an earlier answer. The access token is good for an hour, the refresh token for 30 days and once. Send the answer's workspaceId as X-Platform-Workspace-Id.",
    credentials: ["app"],
    body: { schema: exchangeRequest, example: { token, workspaceId, scopes: ["workspace:session", "ai:use"] } },
    answers: [{ status: 200, description: "The access token, and what follows it.", schema: issuedAppToken }],
    problems: ["INVALID_REQUEST", "REAUTH_REQUIRED", "FORBIDDEN", "RATE_LIMITED"],
  },
  {
    id: "verifyAppToken",
    method: "POST",
    path: "/api/auth/verify-app-token",
    tag,
    summary: "Finish a handoff, on the satellite",
    description:
      "Not on the platform: each satellite answers this at its own origin. It sets the app's session cookies.",
    credentials: [],
    body: { schema: verifyRequest, example: { token } },
    answers: [{ status: 200, description: "Who is signed in, and until when.", schema: verified }],
    problems: ["INVALID_REQUEST"],
  },
];
