import { readFileSync } from "node:fs";
import { z } from "zod";
import { accentFault } from "./accent.ts";

/** The product's name, unless a setting replaces it. */
export const defaultName = "Gatehouse";
/** The accent from `ui/styles.css`, for places that the stylesheet doesn't reach. */
export const defaultAccent = "#035e63";

const maxMarkBytes = 200_000;
const markTypes = { svg: "image/svg+xml", png: "image/png" } as const;

export type MarkType = (typeof markTypes)[keyof typeof markTypes];
/** The mark's bytes, or the URL of a file on this origin. */
export type Mark = { type: MarkType; bytes: Buffer } | { type: MarkType; url: string };

/** How the product presents itself, in pages, emails and prompts. */
export interface Brand {
  name: string;
  accent: string;
  /** False if the stylesheet's accent applies. */
  ownAccent: boolean;
  /** Null for Gatehouse's mark. */
  mark: Mark | null;
  /** The `mailto:` or `https:` URL of support; null if none is configured. */
  support: string | null;
}

/**
 * Rejects colons, which key URIs of authenticator apps don't allow, and angle brackets, which email addresses don't
 * allow.
 */
export const brandName = z
  .string()
  .trim()
  .regex(/^[\p{L}\p{N}][\p{L}\p{N}\p{M} .&'’+!-]{0,39}$/u, "must be 1 to 40 letters, digits, spaces or . & ' ’ + ! -");

export const brandAccent = z
  .string()
  .regex(/^#[0-9a-f]{6}$/i, "must be a colour such as #035e63")
  .transform((hex) => hex.toLowerCase())
  .superRefine((hex, refinement) => {
    const message = /^#[0-9a-f]{6}$/.test(hex) ? accentFault(hex) : undefined;
    if (message) refinement.addIssue({ code: "custom", message });
  });

/** A file, which is read once, or the https or http URL of a file. */
export const brandMark = z.string().transform((source, refinement): Mark => {
  const mark = readMark(source);
  if (typeof mark !== "string") return mark;
  refinement.addIssue({ code: "custom", message: mark });
  return z.NEVER;
});

const supportError = "must be an email address or an https:// URL";

/** An email address, with or without `mailto:`, or an https URL. Braces would be commands in the backend's emails. */
export const supportAddress = z
  .string()
  .regex(/^[^\s<>"{}]+$/, supportError)
  .transform((text) => text.replace(/^mailto:/i, ""))
  .pipe(
    z.union([
      z.email(supportError).transform((email) => `mailto:${email}`),
      z.url({ protocol: /^https$/, error: supportError }),
    ]),
  );

interface BrandSettings {
  BASE_URL: string;
  BRAND_NAME: string;
  BRAND_ACCENT?: string | undefined;
  BRAND_MARK?: Mark | undefined;
  SUPPORT_ADDRESS?: string | undefined;
}

/** Returns whether a mark given as a URL is on our own origin. Pages don't load images from anywhere else. */
export function hasMarkOnOwnOrigin({ BASE_URL, BRAND_MARK: mark }: BrandSettings): boolean {
  return !mark || !("url" in mark) || new URL(mark.url).origin === BASE_URL;
}

/** The error for a mark that fails {@link hasMarkOnOwnOrigin}. */
export const ownMarkFault = {
  path: ["BRAND_MARK"],
  error: "must be a file, or a URL on the origin of BASE_URL: pages load pictures from nowhere else",
};

/** Builds the brand from its settings. */
export function brandOf({ BRAND_NAME, BRAND_ACCENT, BRAND_MARK, SUPPORT_ADDRESS }: BrandSettings): Brand {
  return {
    name: BRAND_NAME,
    accent: BRAND_ACCENT ?? defaultAccent,
    ownAccent: BRAND_ACCENT !== undefined,
    mark: BRAND_MARK ?? null,
    support: SUPPORT_ADDRESS ?? null,
  };
}

/** @returns the mark, or why it can't be used */
function readMark(source: string): Mark | string {
  if (/^https?:/i.test(source)) return readUrl(source);
  let bytes: Buffer;
  try {
    bytes = readFileSync(source);
  } catch (error) {
    return `names ${source}, which cannot be read (${(error as NodeJS.ErrnoException).code})`;
  }
  if (bytes.length > maxMarkBytes) return `names a file of more than ${maxMarkBytes / 1000} kB`;
  const type = detectMarkType(bytes);
  return type ? { type, bytes } : "must be an SVG or a PNG file";
}

function readUrl(source: string): Mark | string {
  if (!URL.canParse(source)) return "is not a URL";
  const { pathname, href } = new URL(source);
  const extension = /\.(svg|png)$/i.exec(pathname)?.[1]?.toLowerCase();
  return extension ? { type: markTypes[extension as keyof typeof markTypes], url: href } : "must end in .svg or .png";
}

/** Detects the type from the content, since names can be wrong. */
function detectMarkType(bytes: Buffer): MarkType | undefined {
  if (bytes.subarray(0, 8).equals(Buffer.from("89504e470d0a1a0a", "hex"))) return markTypes.png;
  const head = bytes.subarray(0, 4096).toString("utf8");
  return /^\uFEFF?\s*(<\?xml[^>]*>\s*)?(<!--[\s\S]*?-->\s*|<!DOCTYPE[^>]*>\s*)*<svg[\s>]/i.test(head)
    ? markTypes.svg
    : undefined;
}
