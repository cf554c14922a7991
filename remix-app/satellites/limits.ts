/** How long a cross-app token may live, and lives where nobody says. */
export const maxHandoffSeconds = 300;

/** After a failed lookup: when a caller may come again. */
export const retryAfterOutageSeconds = 5;
