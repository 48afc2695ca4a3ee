-- A backlog of this size may be small beside the rows of 30 days, and yet its index must not be read as a whole.
ALTER TABLE "deliveries" SET (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000);
