import { randomBytes, randomInt } from "node:crypto";
import { hashToBytea } from "../../remix-app/apps/opaque-tokens.ts";
import { query } from "./people.ts";

/** An OpenID client registered for the device grant. A public client has no secret. */
export interface DeviceClient {
  id: string;
  name: string;
  secret: string | null;
}

/** A device's request that is waiting for a person. */
export interface DeviceRequest {
  deviceCode: string;
  /** The code as stored in the database, without a hyphen. */
  userCode: string;
}

const letters = "BCDFGHJKLMNPQRSTVWXZ";

/** Registers a new client for a test. */
export async function createDeviceClient({
  displayName = "Field CLI",
  scopes = ["profile", "workspaces:read"],
  isPublic = true,
  allowsDeviceGrant = true,
}: {
  displayName?: string;
  scopes?: string[];
  isPublic?: boolean;
  allowsDeviceGrant?: boolean;
} = {}): Promise<DeviceClient> {
  const name = `client-${randomBytes(8).toString("hex")}`;
  const secret = isPublic ? null : randomBytes(32).toString("base64url");
  const [app] = await query<{ id: string }>(
    `with app as (
       insert into private.apps (name, display_name, kind, scopes) values ($1, $2, 'openid', $3) returning id
     ), client as (
       insert into private.openid_clients (app_id, is_public, allows_device_grant) select id, $4, $5 from app
     ), secret as (
       insert into private.app_secrets (app_id, secret_hash) select id, $6::bytea from app where $6 is not null
     )
     select id from app`,
    [name, displayName, scopes, isPublic, allowsDeviceGrant, secret && hashToBytea(secret)],
  );
  if (!app) throw new Error("no client was made");
  return { id: app.id, name, secret };
}

export async function deleteDeviceClient({ id }: Pick<DeviceClient, "id">): Promise<void> {
  await query("delete from private.apps where id = $1", [id]);
}

/** Returns a user code that is very likely unused. */
export const newUserCode = () => Array.from({ length: 8 }, () => letters[randomInt(letters.length)]).join("");

/** Creates a request as a device would, with an IP address and a place. */
export async function askFromDevice(
  client: DeviceClient,
  {
    scopes = ["openid", "profile", "workspaces:read"],
    address = "203.0.113.7",
    userAgent = "curl/8.11.0",
    place = "Porto, Portugal",
  }: { scopes?: string[]; address?: string; userAgent?: string; place?: string | null } = {},
): Promise<DeviceRequest> {
  const request = { deviceCode: `ghd_${randomBytes(32).toString("base64url")}`, userCode: newUserCode() };
  await query(
    `insert into private.device_authorizations
       (device_code_hash, user_code, app_id, scopes, ip, user_agent, place, expires_at)
     values ($1::bytea, $2, $3, $4, $5, $6, jsonb_build_object('name', $7::text), now() + interval '10 minutes')`,
    [hashToBytea(request.deviceCode), request.userCode, client.id, scopes, address, userAgent, place],
  );
  return request;
}

/** Signs somebody in at a client, as a redeemed device code does. @returns the access token */
export async function signInOnDevice(
  { id: appId }: DeviceClient,
  { person, scopes }: { person: { id: string }; scopes: string[] },
): Promise<string> {
  const token = `gho_${randomBytes(32).toString("base64url")}`;
  await query(
    `with login as (
       insert into private.openid_grants (source_id, app_id, user_id, proof, authentication, scopes, ends_at)
       values (
         gen_random_uuid(), $1, $2, private.handoff_proof(jsonb_build_object('user', $2::uuid)),
         row(now(), 'aal1', '{pwd}')::private.openid_authentication, $3, now() + interval '30 days'
       )
       returning id
     )
     insert into private.openid_tokens (grant_id, scopes, access_hash, access_expires_at)
     select id, $3, $4::bytea, now() + interval '1 hour' from login`,
    [appId, person.id, scopes, hashToBytea(token)],
  );
  return token;
}

/** Makes a request expire immediately. */
export async function expireRequest({ userCode }: Pick<DeviceRequest, "userCode">): Promise<void> {
  await query(
    `update private.device_authorizations
     set created_at = now() - interval '10 minutes', expires_at = now() where user_code = $1`,
    [userCode],
  );
}

/** Ages the last poll by the given number of seconds. */
export async function passSincePoll({ deviceCode }: Pick<DeviceRequest, "deviceCode">, seconds: number): Promise<void> {
  await query(
    `update private.device_authorizations
     set polled_at = polled_at - make_interval(secs => $2) where device_code_hash = $1::bytea`,
    [hashToBytea(deviceCode), seconds],
  );
}
