/**
 * Shown for every recovery link that does not work, regardless of the reason. A module without imports, for use on
 * pages.
 */
export const deadLink = "This link no longer works. It was already used, has expired, or was replaced by a newer one.";
