//! Writes that the API server refuses or does not answer, and the jobs of others meanwhile.
