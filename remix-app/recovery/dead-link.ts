/** Said of every recovery link that does not work, whatever the reason; by the page, so that it imports nothing. */
export const deadLink = "This link no longer works. It was already used, has expired, or was replaced by a newer one.";
