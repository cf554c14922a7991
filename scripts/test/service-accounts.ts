import { randomBytes } from "node:crypto";
import type { JWK } from "jose";
import { hashToBytea } from "../../remix-app/apps/opaque-tokens.ts";
import { newAddress } from "../../remix-app/testing/visitor.ts";
import { query } from "./people.ts";
import { readStack } from "./stack.ts";

const { base } = readStack();

/** A service account with a secret in plain text. */
export interface TestServiceAccount {
  id: string;
  clientId: string;
  secret: string;
}

/** Inserts a service account with a secret: of a workspace, or of the platform without one. */
export async function createServiceAccount({
  workspaceId = null,
  scopes,
  allowedAddresses = [],
}: {
  workspaceId?: string | null;
  scopes: readonly string[];
  allowedAddresses?: readonly string[];
}): Promise<TestServiceAccount> {
  const secret = randomBytes(32).toString("base64url");
  const [made] = await query<{ id: string }>(
    `with account as (
       insert into private.service_accounts (workspace_id, name, scopes, allowed_addresses, expires_at)
       values ($1, 'Machine ' || gen_random_uuid(), $2, $3, now() + interval '30 days') returning id
     )
     insert into private.service_account_credentials (service_account_id, secret_hash)
     select id, $4::bytea from account
     returning service_account_id as id`,
    [workspaceId, scopes, allowedAddresses, hashToBytea(secret)],
  );
  const id = made?.id ?? "";
  return { id, clientId: `svc_${id}`, secret };
}

/** Adds a public key to a service account. */
export async function addServiceKey({ id }: Pick<TestServiceAccount, "id">, key: JWK & { kid: string }): Promise<void> {
  await query(
    "insert into private.service_account_credentials (service_account_id, public_jwk, kid) values ($1, $2, $3)",
    [id, JSON.stringify(key), key.kid],
  );
}

/** Posts a form to the token endpoint from an address that no other test uses. */
export async function requestToken(
  form: Record<string, string>,
  { address = newAddress(), headers = {} }: { address?: string; headers?: Record<string, string> } = {},
) {
  const response = await fetch(`${base}/oauth/token`, {
    method: "POST",
    body: new URLSearchParams(form),
    headers: { "x-forwarded-for": address, ...headers },
  });
  const body = (await response.json()) as Partial<Record<"access_token" | "scope" | "error", string>>;
  return { status: response.status, headers: response.headers, body };
}

/** Returns a token of a service account. @param options.scope by default all scopes that it has */
export async function tokenOfServiceAccount(
  { clientId, secret }: TestServiceAccount,
  { scope, address }: { scope?: string; address?: string } = {},
): Promise<string> {
  const { body } = await requestToken(
    {
      grant_type: "client_credentials",
      client_id: clientId,
      client_secret: secret,
      ...(scope === undefined ? {} : { scope }),
    },
    address === undefined ? {} : { address },
  );
  if (body.access_token === undefined) throw new Error(`no token: ${body.error}`);
  return body.access_token;
}
