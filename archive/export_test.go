package archive

// SetPageSize makes pages small, so that a few records make many pages.
func (r *Reader) SetPageSize(n int) { r.page = n }
