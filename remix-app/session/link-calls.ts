import { z } from "zod";

/** What linking an account at a provider takes and answers. */
export const linkRequest = z.object({ returnTo: z.string().max(2_048).optional() });
export const linkBegun = z.object({ url: z.url() });
export type LinkBegun = z.output<typeof linkBegun>;
