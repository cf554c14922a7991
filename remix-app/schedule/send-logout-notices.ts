import { z } from "zod";
import { logWarning } from "#shared/log.ts";
import type { Env } from "../config/env.server.ts";
import { type Delivery, deliverLogout } from "../openid/deliver-logout.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import type { ScheduledTask } from "./schedule.ts";

const intervalMs = 1_000;
const maxDeliveries = 20;

const claimedNotice = z
  .object({
    id: z.uuid(),
    app: z.string(),
    uri: z.url(),
    user_id: z.uuid(),
    sid: z.uuid(),
    attempts: z.number(),
    is_last: z.boolean(),
  })
  .transform(({ user_id: userId, is_last: isLast, ...notice }) => ({ ...notice, userId, isLast }));
type ClaimedNotice = z.output<typeof claimedNotice>;

/**
 * Notifies apps of logins that have ended. Each notice is claimed by one server at a time. A run ends when nothing more
 * is due. Deliveries to slow apps continue in the background, so that they do not delay others.
 */
export function sendLogoutNotices(env: Env): ScheduledTask {
  const deliveries = new Set<Promise<void>>();
  const database = createServiceClient(env).schema("private");

  /** @returns how many notices were due, up to the available capacity */
  async function claim(signal: AbortSignal): Promise<number> {
    const { data, error } = await database
      .rpc("claim_logout_notices", { max_notices: maxDeliveries - deliveries.size })
      .abortSignal(signal);
    if (error) throw new Error(`${error.code} ${error.message}`);
    const notices = z.array(claimedNotice).parse(data);
    for (const notice of notices) {
      const delivery = deliver(notice, signal).finally(() => deliveries.delete(delivery));
      deliveries.add(delivery);
    }
    return notices.length;
  }

  async function deliver(notice: ClaimedNotice, signal: AbortSignal): Promise<void> {
    const delivery = await deliverLogout(env, { notice, signal });
    const warning = warningOf(notice, delivery);
    if (warning && !signal.aborted) logWarning(warning, { logout: notice.id, app: notice.app });
    if (delivery.outcome === "failed" && !notice.isLast) return;
    const { error } = await database.rpc("withdraw_logout", { ended_sid: notice.sid });
    if (error) logWarning(`was sent, and may be sent again: ${error.code}`, { logout: notice.id });
  }

  return {
    name: "send-logout-notices",
    intervalMs,
    async run(signal) {
      while ((await claim(signal)) > 0 && !signal.aborted) {
        if (deliveries.size === maxDeliveries) await Promise.race(deliveries);
      }
    },
    settle: () => Promise.all(deliveries),
  };
}

/**
 * Returns the warning to log about a delivery, or null. If an app does not respond, only the first and the last attempt
 * are logged.
 */
function warningOf({ attempts, isLast }: ClaimedNotice, delivery: Delivery): string | null {
  if (delivery.outcome === "acknowledged") return null;
  if (delivery.outcome === "refused") return `was refused, and is not sent again: ${delivery.reason}`;
  if (isLast) return `could not be delivered in ${attempts} attempts, and is not sent again: ${delivery.reason}`;
  return attempts === 1 ? `was not delivered, and is sent again: ${delivery.reason}` : null;
}
