import { z } from "zod";

/** The longest and the default lifetime of a cross-app token. */
const maxHandoffSeconds = 300;

/** The requests and responses of the endpoints for apps and their sessions (docs/satellites.md). */

export const mintRequest = z.strictObject({
  targetApp: z.string(),
  expirySeconds: z.number().int().min(1).max(maxHandoffSeconds).default(maxHandoffSeconds),
});

/** A token with its expiry, as returned to apps. */
export const issuedSession = z.object({ token: z.string(), expiresAt: z.iso.datetime() });
export type IssuedSession = z.output<typeof issuedSession>;

/** The number of tokens that were outstanding and are now revoked. */
export const revokedTokens = z.object({ revoked: z.number().int() });

export const validateRequest = z.strictObject({
  token: z.string().max(8192),
  /**
   * If true, the call returns only the person that the token would sign in, and redeems nothing. Apps use this to show
   * "Continue as …".
   */
  preview: z.boolean().default(false),
});

const handoffSessions = z.object({
  userId: z.uuid(),
  /** The login that the sessions belong to, as named in logout tokens. */
  sid: z.uuid(),
  appSession: issuedSession,
  centralSession: issuedSession.optional(),
});
export type HandoffSessions = z.output<typeof handoffSessions>;

/** The person that a token would sign in. The app gets name and email only with the `profile` scope. */
const handoffPreview = z.object({ userId: z.uuid(), name: z.string().nullable(), email: z.string().nullable() });
export type HandoffPreview = z.output<typeof handoffPreview>;

/** Null for a token that is invalid, used or expired. */
export const validateResponse = z.union([handoffSessions, handoffPreview, z.null()]);

/** The request body of the calls that refresh, introspect or revoke a session. */
export const sessionTokenRequest = z.strictObject({ token: z.string().min(1).max(4096) });

/** A session's current state (RFC 7662 §2.2). Name, email and picture depend on the app's scopes. */
export const introspection = z.union([
  z.object({ active: z.literal(false) }),
  z.object({
    active: z.literal(true),
    token_type: z.literal("app_session"),
    client_id: z.string(),
    iss: z.string(),
    aud: z.string(),
    sub: z.uuid(),
    /**
     * The id of the handoff that opened the session. All sessions of the handoff have this id, and refreshes keep it.
     */
    sid: z.uuid(),
    scope: z.string(),
    iat: z.number().int(),
    exp: z.number().int(),
    name: z.string().nullish(),
    email: z.string().nullish(),
    picture: z.string().nullish(),
  }),
]);
export type Introspection = z.output<typeof introspection>;

const common = {
  workspaceId: z.uuid().transform((id) => id.toLowerCase()),
  scopes: z
    .array(z.string().regex(/^[a-z]{1,32}:[a-z]{1,32}$/))
    .min(1)
    .max(10)
    .optional(),
};

/** Takes a cross-app token, or the refresh token of an earlier response. */
export const exchangeRequest = z.union([
  z.strictObject({ token: z.string().max(8192), ...common }),
  z.strictObject({ refreshToken: z.string().max(8192), ...common }),
]);
export type ExchangeRequest = z.output<typeof exchangeRequest>;

export const issuedAppToken = z.object({
  userId: z.uuid(),
  accessToken: z.string(),
  expiresAt: z.iso.datetime(),
  refreshToken: z.string(),
  scopes: z.array(z.string()),
  workspaceId: z.uuid(),
});
export type IssuedAppToken = z.output<typeof issuedAppToken>;

/** The request and response of a satellite's own verify route. */
export const verifyRequest = z.strictObject({
  token: z.string().min(1).max(512),
  state: z.string().max(128).optional(),
});
export const verifyResponse = z.object({ userId: z.uuid(), expiresAt: z.iso.datetime() });
