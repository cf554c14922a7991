import { randomBytes } from "node:crypto";
import { z } from "zod";
import { clientNameFault } from "./client-name.ts";
import { maxUriLength, maxUris, redirectUriFault } from "./client-uris.ts";

/** A client that registers itself: by its metadata document or by dynamic registration (RFC 7591). */
export interface SelfRegisteredClient {
  displayName: string;
  redirectUris: string[];
}

/** The fields of RFC 7591 section 2 that matter here. Others are ignored, as section 2 demands. */
const clientMetadata = z.object({
  client_name: z.string().optional(),
  redirect_uris: z.array(z.string().max(maxUriLength)).min(1).max(maxUris),
  grant_types: z.array(z.string()).default(["authorization_code"]),
  response_types: z.array(z.string()).default(["code"]),
});

/** Private-use schemes without a dot, which editors use although RFC 8252 section 7.1 asks for a domain name. */
const editorRedirect = /^(cursor|vscode|vscode-insiders|windsurf):\/\/[a-z0-9][\w.-]*(\/[\w./-]*)?$/;
const maxNameLength = 80;

/** What is wrong with a client's metadata, as an error of RFC 7591 section 3.2.2. */
export class ClientMetadataError extends Error {
  readonly code: "invalid_client_metadata" | "invalid_redirect_uri";

  constructor(code: ClientMetadataError["code"], message: string) {
    super(message);
    this.code = code;
  }
}

/**
 * Reads the metadata of a client.
 * @param options.platform the platform's name, which the client's name must not resemble
 * @throws ClientMetadataError
 */
export function readClientMetadata(value: unknown, { platform }: { platform: string }): SelfRegisteredClient {
  const parsed = clientMetadata.safeParse(value);
  if (!parsed.success) {
    const [field] = parsed.error.issues[0]?.path ?? [];
    const code = field === "redirect_uris" ? "invalid_redirect_uri" : "invalid_client_metadata";
    throw new ClientMetadataError(code, `${String(field ?? "The metadata")} is missing or invalid`);
  }
  const { client_name, redirect_uris, grant_types, response_types } = parsed.data;
  if (!grant_types.includes("authorization_code") || !response_types.includes("code")) {
    throw new ClientMetadataError("invalid_client_metadata", "The client must use authorization_code and code");
  }
  const isWrong = redirect_uris.some((uri) => !editorRedirect.test(uri) && redirectUriFault(uri, { isPublic: true }));
  if (isWrong) {
    throw new ClientMetadataError(
      "invalid_redirect_uri",
      "Each redirect URI must be exact, and use https, http on loopback, or a private-use scheme with a dot",
    );
  }
  const displayName = displayNameOf(client_name);
  if (clientNameFault(displayName, { platform })) {
    throw new ClientMetadataError("invalid_client_metadata", "client_name can't be read, or resembles the platform's");
  }
  return { displayName, redirectUris: [...new Set(redirect_uris)] };
}

/** Returns the name in one line of at most 80 characters. */
function displayNameOf(name = ""): string {
  const plain = name.replaceAll(/\s+/g, " ").trim();
  return [...plain].slice(0, maxNameLength).join("").trim() || "An unnamed app";
}

/** Returns the internal name of a new client. It is not a secret. */
export function newClientName(): string {
  return `client-${randomBytes(16).toString("hex")}`;
}
