import { randomBytes, randomInt } from "node:crypto";
import { type Answer, type App, call, newHash } from "../apps/fixtures.ts";
import { type Claims, type Database, one } from "../database.ts";

/** A device's request: its user code, and the hash of its device code. */
export type DeviceRequest = { client: App; deviceHash: Buffer; userCode: string };

/** Registers an OpenID client; a public one has no secret. */
export async function registerClient(
  db: Database,
  {
    isPublic = true,
    scopes = ["profile"],
    allowsDeviceGrant = true,
  }: { isPublic?: boolean; scopes?: string[]; allowsDeviceGrant?: boolean } = {},
): Promise<App> {
  const name = `client-${randomBytes(8).toString("hex")}`;
  const { id } = await one<{ id: string }>(db, {
    sql: `with app as (
            insert into private.apps (name, display_name, kind, scopes) values ($1, 'Field CLI', 'openid', $2) returning id
          ), client as (
            insert into private.openid_clients (app_id, is_public, allows_device_grant) select id, $3, $4 from app
          )
          select id from app`,
    values: [name, scopes, isPublic, allowsDeviceGrant],
  });
  const secretHash = newHash();
  if (!isPublic) {
    await db.query("insert into private.app_secrets (app_id, secret_hash) values ($1, $2)", [id, secretHash]);
  }
  return { id, name, secretHash: isPublic ? (null as unknown as Buffer) : secretHash };
}

const letters = "BCDFGHJKLMNPQRSTVWXZ";

export const newUserCode = () => Array.from({ length: 8 }, () => letters[randomInt(letters.length)]).join("");

/** Begins a request as a device does. */
export function begin(
  db: Database,
  {
    client,
    deviceHash = newHash(),
    userCodes = [newUserCode()],
    scopes = ["openid", "profile", "offline_access"],
    address = `2001:db8:${randomBytes(2).toString("hex")}:${randomBytes(2).toString("hex")}::1`,
    place = null,
  }: {
    client: App;
    deviceHash?: Buffer;
    userCodes?: string[];
    scopes?: string[];
    address?: string;
    place?: string | null;
  },
): Promise<Answer> {
  return call(db, "begin_device_authorization", {
    client_id: client.name,
    secret_hash: client.secretHash,
    device_code_hash: deviceHash,
    user_codes: userCodes,
    scopes,
    address,
    user_agent: "curl/8.0",
    place,
  });
}

/** Begins a device's authorization request, for a new client if none is given. */
export async function beginRequest(db: Database, given?: App): Promise<DeviceRequest> {
  const client = given ?? (await registerClient(db));
  const deviceHash = newHash();
  const { userCode } = await begin(db, { client, deviceHash });
  return { client, deviceHash, userCode: String(userCode) };
}

/** Approves or denies a device's request, as our page or a phone does. */
export function decide(
  db: Database,
  { userCode, claims, approve = true }: { userCode: string; claims: Claims; approve?: boolean },
): Promise<string> {
  const event = { kind: "device_approved", device: "Chrome on Linux", details: { app: "Field CLI" } };
  return call<string>(db, "decide_device_authorization", { user_code: userCode, claims, approve, event });
}

/** Polls as the device does. */
export function poll(
  db: Database,
  {
    client,
    deviceHash,
    accessHash = newHash(),
    refreshHash = newHash(),
  }: { client: App; deviceHash: Buffer; accessHash?: Buffer; refreshHash?: Buffer },
): Promise<Answer> {
  return call(db, "redeem_device_code", {
    client_id: client.name,
    secret_hash: client.secretHash,
    device_code_hash: deviceHash,
    access_hash: accessHash,
    refresh_hash: refreshHash,
  });
}

/** Moves the last poll back by the given interval. */
export async function waitSincePoll(db: Database, { deviceHash }: DeviceRequest, interval: string): Promise<void> {
  await db.query(
    "update private.device_authorizations set polled_at = now() - $2::interval where device_code_hash = $1",
    [deviceHash, interval],
  );
}

/** Backdates a request by the given age. */
export async function ageRequest(db: Database, { deviceHash }: DeviceRequest, age: string): Promise<void> {
  await db.query(
    `update private.device_authorizations
     set created_at = now() - $2::interval, expires_at = now() - $2::interval + interval '10 minutes'
     where device_code_hash = $1`,
    [deviceHash, age],
  );
}
