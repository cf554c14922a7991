import { createHash } from "node:crypto";
import { StackError } from "@gatehousehq/local-stack/errors";

const timeoutMs = 30_000;
/** An image for several platforms first, so that the digest is the same on all of them. */
const manifestTypes = [
  "application/vnd.oci.image.index.v1+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.docker.distribution.manifest.v2+json",
].join(", ");

/**
 * Reads the digest of an image from its registry, without an account (OCI Distribution Specification, "Pulling
 * manifests"). Computes it from the manifest itself.
 * @throws StackError if the registry can't be reached, or has no such image
 */
export async function readDigest(reference: string): Promise<string> {
  try {
    const manifest = await fetchManifest(reference);
    return `sha256:${createHash("sha256").update(manifest).digest("hex")}`;
  } catch (error) {
    const reason = error instanceof Error ? ((error.cause as Error | undefined)?.message ?? error.message) : error;
    throw new StackError(`The digest of ${reference} could not be read: ${reason}`);
  }
}

async function fetchManifest(reference: string): Promise<Uint8Array> {
  const { url, repository } = locate(reference);
  const headers = { accept: manifestTypes };
  const first = await request(url, headers);
  const challenge = first.headers.get("www-authenticate");
  const token = first.status === 401 && challenge ? await fetchToken(challenge, repository) : undefined;
  const response = token ? await request(url, { ...headers, authorization: `Bearer ${token}` }) : first;
  if (!response.ok) throw new Error(`the registry answers ${response.status}`);
  return response.bytes();
}

/** Returns the address of an image's manifest. A registry on this machine is asked without TLS. */
function locate(reference: string): { url: string; repository: string } {
  const [, host = "", repository = "", tag = ""] = /^([^/]+)\/([^@]+):([\w.-]+)$/.exec(reference) ?? [];
  if (!host) throw new Error("it needs a registry's host, a name and a tag");
  const scheme = /^(localhost|127\.0\.0\.1)(:|$)/.test(host) ? "http" : "https";
  const server = host === "docker.io" ? "registry-1.docker.io" : host;
  return { url: `${scheme}://${server}/v2/${repository}/manifests/${tag}`, repository };
}

/** Gets the token for anonymous pulls that a registry's challenge asks for. */
async function fetchToken(challenge: string, repository: string): Promise<string> {
  const parameters = Object.fromEntries(
    [...challenge.matchAll(/(\w+)="([^"]*)"/g)].map(([, name, value]) => [name, value]),
  );
  const url = new URL(parameters.realm ?? "");
  if (parameters.service) url.searchParams.set("service", parameters.service);
  url.searchParams.set("scope", `repository:${repository}:pull`);
  const { token, access_token } = (await (await request(url.href)).json()) as { token?: string; access_token?: string };
  return token ?? access_token ?? "";
}

function request(url: string, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(url, { headers, signal: AbortSignal.timeout(timeoutMs) });
}
