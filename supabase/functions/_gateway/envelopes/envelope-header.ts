import { readUsdAmount } from "../../_shared/usd-amount.ts";
import { GatewayError } from "../http/errors.ts";

export const envelopeHeader = "X-Platform-Envelope";

/** The envelope that a call names, as passed to `ai.begin_runs`. */
export type EnvelopeRequest = { usd: string; calls?: number; ttl_seconds?: number };

/** How long a call waits for a used-up envelope at most. */
const maxWaitSeconds = 600;
const maxTtlSeconds = 366 * 86_400;
const maxCalls = 1_000_000_000;

/** A member: a name and an unsigned number, with optional spaces around both. */
const memberPattern = /^[ \t]*([a-z]+)[ \t]*=[ \t]*(\d+(?:\.\d+)?)[ \t]*$/i;
const form = `Write it as ${envelopeHeader}: usd=5; calls=200; ttl=3600; wait=600. Only usd is required.`;

/**
 * Reads the header that holds a call in an envelope.
 * @returns the envelope, and for how many seconds the call waits if it is used up; undefined without the header
 * @throws GatewayError `invalid_request` that names the header and the wrong member
 */
export function readEnvelope(headers: Headers): { envelope: EnvelopeRequest; waitSeconds: number } | undefined {
  const text = headers.get(envelopeHeader);
  if (text === null) return undefined;
  const members = new Map<string, string>();
  for (const member of text.split(";")) {
    const [, name = "", value = ""] = memberPattern.exec(member) ?? [];
    const lowerName = name.toLowerCase();
    if (!name || members.has(lowerName))
      throw refuse(name ? `has ${lowerName} twice` : `has the invalid member “${member.trim()}”`);
    members.set(lowerName, value);
  }
  const usd = readUsdAmount(members.get("usd") ?? "");
  if (usd === null || usd === "0") throw refuse("needs usd: an amount above 0 with at most 12 decimals");
  const calls = readInteger(members, { name: "calls", min: 1, max: maxCalls });
  const ttl = readInteger(members, { name: "ttl", min: 1, max: maxTtlSeconds });
  const waitSeconds = readInteger(members, { name: "wait", min: 0, max: maxWaitSeconds }) ?? 0;
  for (const name of members.keys()) if (!knownNames.has(name)) throw refuse(`has the unknown member ${name}`);
  return {
    envelope: {
      usd,
      ...(calls === undefined ? {} : { calls }),
      ...(ttl === undefined ? {} : { ttl_seconds: ttl }),
    },
    waitSeconds,
  };
}

const knownNames: ReadonlySet<string> = new Set(["usd", "calls", "ttl", "wait"]);

function readInteger(
  members: ReadonlyMap<string, string>,
  { name, min, max }: { name: string; min: number; max: number },
): number | undefined {
  const text = members.get(name);
  if (text === undefined) return undefined;
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < min || value > max) throw refuse(`allows ${name} from ${min} to ${max}`);
  return value;
}

function refuse(fault: string): GatewayError {
  return new GatewayError("invalid_request", {
    param: envelopeHeader,
    message: `The header ${envelopeHeader} ${fault}. ${form}`,
  });
}
