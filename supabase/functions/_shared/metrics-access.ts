import { BlockList, isIP } from "node:net";
import { z } from "zod";
import { isSameSecret } from "./same-secret.ts";

/** The settings of `GET /metrics`, the same for the web server and the gateway. */
export const metricsSettings = {
  METRICS_TOKEN: z
    .string()
    .min(32, "must have at least 32 characters: make one with `openssl rand -base64 32`")
    .optional(),
  METRICS_ADDRESSES: z
    .string()
    .transform((text) => text.split(",").map((entry) => entry.trim()))
    .pipe(z.array(z.string().refine(isNetwork, "must be IP addresses or networks, such as 10.0.0.0/8")))
    .optional(),
} as const;

type Settings = z.infer<z.ZodObject<typeof metricsSettings>>;

/** Decides whether a request may read the metrics: `off` answers as a path that does not exist. */
export type MetricsAccess = (caller: {
  authorization: string | null;
  address: string | undefined;
}) => "allowed" | "off" | "unauthorized";

/**
 * Creates the check of `GET /metrics`. If both settings are set, a request needs the token and an allowed address.
 * Without any, metrics are off.
 */
export function createMetricsAccess({ METRICS_TOKEN: token, METRICS_ADDRESSES: networks }: Settings): MetricsAccess {
  const allowed = networks && blockListOf(networks);
  return ({ authorization, address }) => {
    if (token === undefined && !allowed) return "off";
    if (allowed && !isListed(allowed, address)) return "off";
    return token === undefined || isSameSecret(bearerOf(authorization), token) ? "allowed" : "unauthorized";
  };
}

/** Returns the token after the scheme, whose case does not matter (RFC 9110, 11.1). */
function bearerOf(authorization: string | null): string {
  return /^bearer +(\S+)$/i.exec(authorization ?? "")?.[1] ?? "";
}

/** Returns whether either setting turns the metrics on. */
export function areMetricsOn({ METRICS_TOKEN, METRICS_ADDRESSES }: Settings): boolean {
  return METRICS_TOKEN !== undefined || METRICS_ADDRESSES !== undefined;
}

function isNetwork(entry: string): boolean {
  const [address = "", prefix, ...rest] = entry.split("/");
  const maxPrefix = { 0: -1, 4: 32, 6: 128 }[isIP(address)] ?? -1;
  if (maxPrefix < 0 || address.includes("%") || rest.length > 0) return false;
  return prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= maxPrefix);
}

function blockListOf(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address = "", prefix] = network.split("/");
    const family = isIP(address) === 4 ? "ipv4" : "ipv6";
    list.addSubnet(address, Number(prefix ?? (family === "ipv4" ? 32 : 128)), family);
  }
  return list;
}

function isListed(list: BlockList, address: string | undefined): boolean {
  if (address === undefined || isIP(address) === 0) return false;
  return list.check(address, isIP(address) === 4 ? "ipv4" : "ipv6");
}
