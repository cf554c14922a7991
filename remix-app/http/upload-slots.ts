import { problem } from "./problem.ts";

/** Two, so that a double click waits instead of being refused. */
const maxUploadsPerOwner = 2;
/** The maximum total size of the bodies that are being received or worked on. */
const maxTotalBytes = 64 * 1024 * 1024;

/** The number of uploads of each owner. */
const owners = new Map<string, number>();
let totalBytes = 0;

/**
 * Runs the work for a request with a large body, which includes receiving the body. Counts the body with its declared
 * size, or with the maximum if it declares none.
 * @param options.maxBytes the limit with which `work` reads the body
 * @throws Response 429, without reading the body, during two uploads of the owner or too many bytes of all
 */
export async function withUploadSlot<Result>(
  request: Request,
  { owner, requestId, maxBytes }: { owner: string; requestId: string; maxBytes: number },
  work: () => Promise<Result>,
): Promise<Result> {
  const declared = Number(request.headers.get("content-length") ?? Number.NaN);
  const bytes = declared < maxBytes ? declared : maxBytes;
  const ownerUploads = owners.get(owner) ?? 0;
  if (ownerUploads >= maxUploadsPerOwner || totalBytes + bytes > maxTotalBytes) {
    const detail = "Other files are being read. Wait a moment, then try again.";
    throw problem("RATE_LIMITED", { requestId, detail, headers: { "Retry-After": "5", Connection: "close" } });
  }
  owners.set(owner, ownerUploads + 1);
  totalBytes += bytes;
  try {
    return await work();
  } finally {
    totalBytes -= bytes;
    const remaining = (owners.get(owner) ?? 1) - 1;
    if (remaining > 0) owners.set(owner, remaining);
    else owners.delete(owner);
  }
}
