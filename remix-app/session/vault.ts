import { z } from "zod";
import type { Env } from "../config/env.server.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import { type AccountKeys, openAccountKeys } from "./account-keys.ts";
import type { Device } from "./device-cookie.ts";
import { deviceView } from "./device-view.ts";
import { openSession, type Sealed, sealSession } from "./seal.ts";
import type { StoredSession } from "./session-cookie.ts";

export const vaultEntry = z.object({
  userId: z.uuid(),
  sessionId: z.uuid(),
  sealed: z.string().nullable(),
  keyId: z.string().nullable(),
  tag: z.string().nullable(),
});

/** An account's session as the vault has it: by its tag a later write finds out whether another came first. */
export type VaultEntry = z.infer<typeof vaultEntry>;

const openedDevice = deviceView.extend({ vault: vaultEntry.nullable() });

const keptAnswer = z.union([
  z.object({ kept: z.literal(true) }),
  z.object({ kept: z.literal(false), current: vaultEntry.nullable() }),
]);

/** The database did not answer: nothing was concluded, and whatever was asked can be asked again. */
export class VaultUnavailable extends Error {
  override name = "VaultUnavailable";
}

export interface KeepOptions {
  device: Device;
  entry: VaultEntry;
  /** Absent where only the entry's use is noted. */
  session?: StoredSession;
  lastRoute?: string | null;
}

/** The sealed sessions of browsers, for our server alone. */
export interface Vault {
  keys: AccountKeys;
  /** @throws VaultUnavailable where the database did not answer */
  call<Schema extends z.ZodType>(
    name: string,
    options: { args: Record<string, unknown>; schema: Schema },
  ): Promise<z.infer<Schema>>;
  /** The device with its active account's sealed session; null where it is not known. */
  open(device: Device): Promise<z.infer<typeof openedDevice> | null>;
  /** The session within an entry; null where it does not open. */
  unseal(device: Device, entry: VaultEntry): Promise<StoredSession | null>;
  seal(device: Device, owner: { userId: string; session: StoredSession }): Promise<Sealed>;
  /** Puts a rotated session in an entry's place. @returns false and what is there where another came first */
  keep(options: KeepOptions): Promise<z.infer<typeof keptAnswer>>;
  /** The browser has shown its newest secret: the one before may go. Where that fails, the next request tells again. */
  noteArrival(device: Device): Promise<void>;
  /**
   * Notes that an entry's session is over; `listed` leaves the account on the list, to be signed in to again.
   * @returns false where another rotation came first
   */
  lose(device: Device, options: { entry: VaultEntry; listed: boolean }): Promise<boolean>;
}

/** Opens the vault of a process. Its keys are derived once. */
export async function openVault(env: Env): Promise<Vault> {
  const keys = await openAccountKeys(env);
  const database = createServiceClient(env).schema("private");

  const call: Vault["call"] = async (name, { args, schema }) => {
    const { data, error } = await database.rpc(name, args);
    if (error) throw new VaultUnavailable(`${name}: ${error.code} ${error.message}`);
    return schema.parse(data) as never;
  };

  return {
    keys,
    call,
    open: (device) =>
      call("open_account_device", {
        args: { device_id: device.id, secret: device.secret },
        schema: openedDevice.nullable(),
      }),
    async unseal({ id: deviceId }, { userId, sealed, keyId }) {
      return sealed === null || keyId === null ? null : openSession({ sealed, keyId }, { deviceId, userId, keys });
    },
    seal: ({ id: deviceId }, { userId, session }) => sealSession(session, { deviceId, userId, keys }),
    async keep({ device, entry, session, lastRoute = null }) {
      const { userId, sessionId, tag: expectedTag } = entry;
      const sealed = session ? await sealSession(session, { deviceId: device.id, userId, keys }) : {};
      return call("store_account_session", {
        args: { entry: { deviceId: device.id, userId, sessionId, expectedTag, lastRoute, ...sealed } },
        schema: keptAnswer,
      });
    },
    noteArrival: ({ id, secret }) =>
      call("confirm_device_secret", { args: { device_id: id, secret }, schema: z.unknown() }).then(
        () => {},
        () => {},
      ),
    lose: (device, { entry, listed }) =>
      call("discard_account_session", {
        args: { device_id: device.id, user_id: entry.userId, expected_tag: entry.tag, listed },
        schema: z.boolean(),
      }),
  };
}
