/** Said of every recovery link that does not work, whatever the reason; by the page, so that it imports nothing. */
export const deadLink = "This link no longer works: it was used, is too old, or a newer one was sent.";
