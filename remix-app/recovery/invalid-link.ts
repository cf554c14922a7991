/**
 * Shown for every recovery link that does not work, regardless of the reason. This module has no imports, so pages can
 * import it without server code.
 */
export const invalidLinkMessage =
  "This link has expired, was already used, or was replaced by a newer one. Use the newest email, or ask your administrator for a new one.";
