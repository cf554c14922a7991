import type { Stack } from "../../test/stack.ts";
import { litellmKey, litellmLabel } from "../peers/litellm.ts";
import { portkeyLabel } from "../peers/portkey.ts";
import type { Call } from "./call.ts";

/** The targets, in the order of the tables. */
export const targetNames = ["gatehouse", "floor", "portkey", "litellm", "bare"] as const;
export type TargetName = (typeof targetNames)[number];
export const targetLabels: Record<TargetName, string> = {
  gatehouse: "Gatehouse",
  floor: "floor",
  portkey: portkeyLabel,
  litellm: litellmLabel,
  bare: "upstream alone",
};

/** A server that answers chat requests. */
export type Target = { name: TargetName; pid: number; call: Call };

/**
 * Returns our functions as a target. Calls go to the functions directly, because hosted Supabase's relay isn't ours to
 * measure.
 */
export function ourTarget(stack: Stack, keys: readonly string[]): Target {
  const functions = stack.services.find(({ name }) => name === "functions");
  if (!functions) throw new Error("The stack runs without its functions.");
  const url = `http://127.0.0.1:${functions.port}/chat/completions`;
  const call = { url, headers: {}, authorizations: keys.map((key) => `Bearer ${key}`) };
  return { name: "gatehouse", pid: functions.pid, call };
}

/** Returns a target other than our functions. These targets have no tenants, so every call carries the same key. */
export function otherTarget(
  name: Exclude<TargetName, "gatehouse">,
  { url, pid, upstream }: { url: string; pid: number; upstream: string },
): Target {
  const headers: Record<string, string> =
    name === "portkey" ? { "x-portkey-provider": "openai", "x-portkey-custom-host": `${upstream}/v1` } : {};
  const authorizations = [`Bearer ${name === "litellm" ? litellmKey : "bench"}`];
  return { name, pid, call: { url: `${url}/v1/chat/completions`, headers, authorizations } };
}
