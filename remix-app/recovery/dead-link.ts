/**
 * Shown for every recovery link that does not work, regardless of the reason. This module has no imports, so pages can
 * use it.
 */
export const deadLink = "This link no longer works. It was already used, has expired, or was replaced by a newer one.";
