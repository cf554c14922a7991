import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { isStorableJson, jsonStructureFault } from "#shared/json-limits.ts";
import { logWarning } from "#shared/log.ts";
import { isLoopback } from "#shared/loopback.ts";
import { requireAllowedAttempt } from "../apps/app-client.ts";
import { callAppFunction } from "../apps/app-database.ts";
import { allowsLoopback, readResponse, requestPublic } from "../http/public-request.ts";
import type { User } from "../session/user.ts";
import { newClientName, readClientMetadata, type SelfRegisteredClient } from "./client-metadata.ts";

/** Why the metadata document of a client could not be used. */
export type DocumentFault = "document_unavailable" | "document_invalid";

const timeoutMs = 5_000;
const maxBytes = 16 * 1024;
const jsonLimits = { maxDepth: 8, maxValues: 1_000, maxMembers: 200 };
/** How long a document is used before it is fetched again, unless its Cache-Control says otherwise. */
const freshnessSeconds = { min: 300, default: 3_600, max: 86_400 };

/**
 * Returns whether a client id is the URL of a metadata document (draft-ietf-oauth-client-id-metadata-document-00 section
 * 3). Plain http leads to this machine only, and only if the platform itself runs there.
 */
export function isDocumentUrl(clientId: string, { env }: Pick<AppLoadContext, "env">): boolean {
  const url = URL.parse(clientId);
  if (url?.href !== clientId || url.pathname === "/" || url.username || url.password || clientId.includes("#")) {
    return false;
  }
  return url.protocol === "https:" || (url.protocol === "http:" && isLoopback(url.hostname) && allowsLoopback(env));
}

/**
 * Fetches the metadata document of a client, and registers or updates the client.
 * @returns null if the document was stored
 * @throws Response 429 RATE_LIMITED; 503 AUTH_UNAVAILABLE
 */
export async function saveClientDocument(
  context: AppLoadContext,
  { url, user }: { url: string; user: User },
): Promise<DocumentFault | null> {
  await requireAllowedAttempt(context, { action: "client_document", userId: user.id });
  const document = await fetchDocument(context, url);
  if (typeof document === "string") return document;
  const client = { name: newClientName(), metadataUrl: url, ...document };
  await callAppFunction(context, { name: "save_self_registered_client", args: { client }, schema: z.null() });
  return null;
}

type FetchedDocument = SelfRegisteredClient & { freshSeconds: number };

async function fetchDocument(
  { env, requestId }: Pick<AppLoadContext, "env" | "requestId">,
  url: string,
): Promise<FetchedDocument | DocumentFault> {
  try {
    const response = await requestPublic(new URL(url), {
      headers: { Accept: "application/json" },
      allowLoopback: allowsLoopback(env),
      signal: AbortSignal.timeout(timeoutMs),
    });
    if (response.statusCode !== 200 || !/^application\/([\w.-]+\+)?json\s*(;|$)/i.test(readContentType(response))) {
      response.destroy();
      return "document_unavailable";
    }
    const bytes = await readResponse(response, { maxBytes });
    return {
      ...readDocument(bytes, { url, platform: env.BRAND_NAME }),
      freshSeconds: parseFreshnessSeconds(response.headers["cache-control"]),
    };
  } catch (error) {
    logWarning(`client document ${url}: ${error}`, { requestId });
    return error instanceof InvalidDocument ? "document_invalid" : "document_unavailable";
  }
}

const readContentType = ({ headers }: { headers: { "content-type"?: string | undefined } }) =>
  headers["content-type"] ?? "";

class InvalidDocument extends Error {}

/** Only a public client can be described: secrets must not be in a document, and signed assertions are not supported. */
const identity = z.object({
  client_id: z.string(),
  client_secret: z.never().optional(),
  token_endpoint_auth_method: z.literal("none").default("none"),
});

/** @throws InvalidDocument */
export function readDocument(
  bytes: Uint8Array,
  { url, platform }: { url: string; platform: string },
): SelfRegisteredClient {
  try {
    if (jsonStructureFault(bytes, jsonLimits)) throw new Error("the JSON is too deep or too large");
    const value: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    if (!isStorableJson(value)) throw new Error("it has text that can't be stored");
    if (identity.parse(value).client_id !== url) throw new Error("client_id is not the document's URL");
    return readClientMetadata(value, { platform });
  } catch (error) {
    throw new InvalidDocument(String(error));
  }
}

/** Returns how long a document may be used (RFC 9111 section 5.2.2.1), at least five minutes and at most a day. */
export function parseFreshnessSeconds(cacheControl = ""): number {
  const [, maxAge] = /(?:^|[\s,])max-age="?(\d{1,10})/i.exec(cacheControl) ?? [];
  const statedSeconds = /no-(store|cache)/i.test(cacheControl) ? 0 : Number(maxAge ?? freshnessSeconds.default);
  return Math.min(Math.max(statedSeconds, freshnessSeconds.min), freshnessSeconds.max);
}
