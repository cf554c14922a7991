/** The longest model call that can be allowed, in seconds. `ai.model_routes` has the same limit. */
export const maxCallSeconds = 14_400;
