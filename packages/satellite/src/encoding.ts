const tokenBytes = 24;

export function encodeBase64Url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replace(/=+$/, "");
}

/** Returns 192 random bits. */
export function randomToken(): string {
  return encodeBase64Url(crypto.getRandomValues(new Uint8Array(tokenBytes)));
}

/** Escapes text for HTML content and double-quoted attributes. */
export function escapeHtml(text: string): string {
  const entities: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  return text.replace(/[&<>"']/g, (character) => entities[character] ?? character);
}
