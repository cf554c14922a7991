import { createSatellite } from "@gatehouse/satellite/next";

export const satellite = createSatellite();
