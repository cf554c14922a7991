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
  validateRequest,
  validateResponse,
  verifyRequest,
  verifyResponse,
} from "./app-calls.ts";

const operationTag = "Apps and handoff";
const exampleCrossAppToken = "xat_4bqO2X0y7GZ0m3Z1l0o9Wb8Qv2m7Yd4JkX9tF5sN1cE";
const exampleSessionToken = "eyJ0eXAiOiJhcHAtc2Vzc2lvbitqd3QiLCJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl";
const exampleWorkspaceId = "0b1e7a52-3c1d-4b7a-9d57-2f8f0a6c9e11";

/** The API operations that hand a person over to an app, and the operations of the app's server. */
export const appOperations: readonly Operation<ProblemCode>[] = [
  {
    id: "mintCrossAppToken",
    method: "POST",
    path: "/api/v1/auth/cross-app-tokens",
    tag: operationTag,
    summary: "Create a cross-app token",
    credentials: ["session", "bearer"],
    body: { schema: mintRequest, example: { targetApp: "notes", expirySeconds: 120 } },
    answers: [{ status: 201, description: "The token, which works once.", schema: issuedSession }],
    problems: ["INVALID_REQUEST", "MFA_REQUIRED", "NOT_FOUND", "RATE_LIMITED"],
  },
  {
    id: "revokeCrossAppTokens",
    method: "DELETE",
    path: "/api/v1/auth/cross-app-tokens",
    tag: operationTag,
    summary: "Revoke all outstanding cross-app tokens",
    credentials: ["session", "bearer"],
    answers: [{ status: 200, description: "The number of revoked tokens.", schema: revokedTokens }],
    problems: ["MFA_REQUIRED"],
  },
  {
    id: "validateCrossAppToken",
    method: "POST",
    path: "/api/v1/auth/cross-app-tokens/validate",
    tag: operationTag,
    summary: "Redeem a cross-app token",
    description:
      "For the server of the app that the token was created for. Returns null for an invalid, used or expired token. A preview does not use up the token.",
    credentials: ["app"],
    body: { schema: validateRequest, example: { token: exampleCrossAppToken } },
    answers: [
      {
        status: 200,
        description: "The session that the token opens; for a preview, the user it would sign in; or null.",
        schema: validateResponse,
      },
    ],
    problems: ["INVALID_REQUEST", "RATE_LIMITED"],
  },
  {
    id: "introspectAppSession",
    method: "POST",
    path: "/api/v1/auth/app-sessions/introspect",
    tag: operationTag,
    summary: "Introspect an app session",
    description: "Follows RFC 7662. An app may cache the response for 60 seconds.",
    credentials: ["app"],
    body: { schema: sessionTokenRequest, example: { token: exampleSessionToken } },
    answers: [{ status: 200, description: "Whether the session is active, and its user.", schema: introspection }],
    problems: ["INVALID_REQUEST", "RATE_LIMITED"],
  },
  {
    id: "refreshAppSession",
    method: "POST",
    path: "/api/v1/auth/app-sessions/refresh",
    tag: operationTag,
    summary: "Refresh an app session",
    description: "The old token expires 30 seconds later. Until then, refreshing it again returns the same new token.",
    credentials: ["app"],
    body: { schema: sessionTokenRequest, example: { token: exampleSessionToken } },
    answers: [{ status: 200, description: "The new token.", schema: issuedSession }],
    problems: ["INVALID_REQUEST", "REAUTH_REQUIRED", "RATE_LIMITED"],
  },
  {
    id: "revokeAppSession",
    method: "POST",
    path: "/api/v1/auth/app-sessions/revoke",
    tag: operationTag,
    summary: "Revoke an app session or an AI gateway token",
    description:
      "Revoking one session of a handoff also revokes the other session of that handoff. Revoking a ttr_app_ token or its refresh token revokes the whole chain. An unknown token is not an error (RFC 7009).",
    credentials: ["app"],
    body: { schema: sessionTokenRequest, example: { token: exampleSessionToken } },
    answers: [{ status: 204, description: "The session or token is revoked." }],
    problems: ["INVALID_REQUEST", "RATE_LIMITED"],
  },
  {
    id: "exchangeAppToken",
    method: "POST",
    path: "/api/v1/auth/app-token/exchange",
    tag: operationTag,
    summary: "Get an access token for the AI gateway",
    description:
      "For registered external apps. Send a cross-app token, or the refresh token from an earlier response. The access token expires after 1 hour. The refresh token expires after 30 days and works once. Send the workspaceId from the response as X-Platform-Workspace-Id.",
    credentials: ["app"],
    body: {
      schema: exchangeRequest,
      example: {
        token: exampleCrossAppToken,
        workspaceId: exampleWorkspaceId,
        scopes: ["workspace:session", "ai:use"],
      },
    },
    answers: [{ status: 200, description: "The access token and its refresh token.", schema: issuedAppToken }],
    problems: ["INVALID_REQUEST", "REAUTH_REQUIRED", "FORBIDDEN", "RATE_LIMITED"],
  },
  {
    id: "verifyAppToken",
    method: "POST",
    path: "/api/auth/verify-app-token",
    tag: operationTag,
    summary: "Finish a handoff in the app (served by the app)",
    description: "Each satellite serves this at its own origin; the platform does not. Sets the app's session cookies.",
    credentials: [],
    body: { schema: verifyRequest, example: { token: exampleCrossAppToken } },
    answers: [
      { status: 200, description: "The signed-in user, and when the session expires.", schema: verifyResponse },
    ],
    problems: ["INVALID_REQUEST"],
  },
];
