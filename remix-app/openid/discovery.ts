import type { Env } from "../config/env.server.ts";
import { type JsonDocument, jsonDocument } from "../http/json-document.ts";
import { assertionAlgorithms } from "../machines/assertion-key.ts";

/** The scopes that clients may request. A client is granted only the requested scopes that it is registered for. */
const scopes = [
  ...["openid", "offline_access", "profile", "email"],
  ...["workspaces:read", "workspaces:write", "studio:read", "studio:keys"],
];

/** Returns the URLs of the provider's endpoints. */
export function endpointsOf(issuer: string) {
  return {
    authorization_endpoint: `${issuer}/oauth/authorize`,
    pushed_authorization_request_endpoint: `${issuer}/oauth/par`,
    token_endpoint: `${issuer}/oauth/token`,
    userinfo_endpoint: `${issuer}/oauth/userinfo`,
    introspection_endpoint: `${issuer}/oauth/introspect`,
    revocation_endpoint: `${issuer}/oauth/revoke`,
    device_authorization_endpoint: `${issuer}/oauth/device_authorization`,
    end_session_endpoint: `${issuer}/oauth/logout`,
    jwks_uri: `${issuer}/.well-known/jwks.json`,
  };
}

/**
 * Returns the provider's metadata (OpenID Connect Discovery 1.0 section 3, RFC 8414 section 2), which lists only
 * supported features.
 */
export function providerMetadata(issuer: string, { allowsRegistration }: { allowsRegistration: boolean }) {
  const methods = ["client_secret_basic", "client_secret_post"];
  return {
    issuer,
    ...endpointsOf(issuer),
    ...(allowsRegistration && { registration_endpoint: `${issuer}/oauth/register` }),
    response_types_supported: ["code"],
    response_modes_supported: ["query"],
    grant_types_supported: [
      ...["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
      "client_credentials",
    ],
    code_challenge_methods_supported: ["S256"],
    scopes_supported: scopes,
    claims_supported: [
      ...["iss", "sub", "aud", "exp", "iat", "sid", "nonce", "at_hash", "auth_time", "acr", "amr"],
      ...["name", "picture", "email", "email_verified", "preferred_username", "updated_at", "groups"],
    ],
    subject_types_supported: ["public"],
    id_token_signing_alg_values_supported: ["RS256"],
    acr_values_supported: ["aal1", "aal2"],
    prompt_values_supported: ["none", "login", "consent", "select_account"],
    // Only service accounts have private_key_jwt and the grant client_credentials.
    token_endpoint_auth_methods_supported: [...methods, "private_key_jwt", "none"],
    token_endpoint_auth_signing_alg_values_supported: assertionAlgorithms,
    revocation_endpoint_auth_methods_supported: [...methods, "private_key_jwt", "none"],
    revocation_endpoint_auth_signing_alg_values_supported: assertionAlgorithms,
    introspection_endpoint_auth_methods_supported: methods,
    authorization_response_iss_parameter_supported: true,
    client_id_metadata_document_supported: true,
    backchannel_logout_supported: true,
    backchannel_logout_session_supported: true,
    claims_parameter_supported: true,
    request_parameter_supported: false,
    request_uri_parameter_supported: false,
  };
}

const documents = new WeakMap<Env, JsonDocument>();

/** Returns the provider's metadata as it is served. */
export function metadataDocument(env: Env): JsonDocument {
  const document =
    documents.get(env) ??
    jsonDocument(providerMetadata(env.BASE_URL, { allowsRegistration: env.OAUTH_CLIENT_REGISTRATION }));
  documents.set(env, document);
  return document;
}
